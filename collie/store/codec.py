"""Converts everything that a campaign records from the model to JSON values, and back. Pure: no I/O.

Finite floats survive exactly. An infinite or undefined reading becomes null. Any other such number is refused. The
functions that decode raise `ValueError` for anything that the functions that encode cannot have written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import lcm
from typing import Any, TypedDict, TypeVar, cast

from collie.detect.bounds import Calibration, CalibrationPoint
from collie.detect.links import LinkLatency
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.symptom import Verdict
from collie.plain import CODEC, Codec, Form, Shape, typed
from collie.ports import HostLost, Measured, PairLost, RunResult, SetupFailed, Unsupported
from collie.search.anomaly import Anomaly, require_id
from collie.untrusted import read_json
from collie.workloads.constraint import MAX_REQUESTS_IN_TURN
from collie.workloads.feature import FEATURE_NAMES, Condition, Mfs, Op, feature_value
from collie.workloads.parse import parse_workload
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload, render

Json = dict[str, Any]
T = TypeVar("T")

_MAX_NUMBER = 2**64
MAX_VALUES = 100_000  # in one JSON text: a run on eight hosts with 10,000 counters each has 80,000 (20 MB)


def dumps(value: Any) -> str:
    """Return JSON on one line, in ASCII because host output may not be UTF-8."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def loads(text: Any) -> Any:
    """Parse untrusted JSON. Raises `ValueError` if it has more than `MAX_VALUES` values."""
    return read_json(require_few_values(typed(str, text), MAX_VALUES))


def require_few_values(text: str, most: int) -> str:
    """Refuse JSON with more than `most` values, because parsed values can take 60 times the memory of their text."""
    if count_values(text) > most:
        raise ValueError(f"it has more than {most:,} values")
    return text


def count_values(text: str) -> int:
    """Return an upper bound on the number of values in JSON. Separators inside strings count, too."""
    return sum(map(text.count, ",[{"))


def decode_workload(raw: Mapping[str, Any]) -> Workload:
    """Read the result of `workload.render`."""
    workload, complaints = parse_workload(typed(Mapping[str, Any], raw))
    if workload is None:
        raise ValueError("; ".join(text for _, text in complaints[:3]))
    if lcm(1 + len(workload.more_opcodes), len(workload.messages)) > MAX_REQUESTS_IN_TURN:
        raise ValueError("its requests do not repeat soon enough")
    return workload


_Bound = bool | int | float | str


class _Condition(TypedDict):
    dimension: str
    op: Op
    value: _Bound | Sequence[_Bound | Sequence[_Bound]]


def _decode_mfs(raw: Any) -> Mfs:
    conditions: Sequence[_Condition] = typed(Sequence[_Condition], raw)
    return Mfs(tuple(_answerable(Condition(each["dimension"], each["op"], each["value"])) for each in conditions))


def _answerable(condition: Condition) -> Condition:
    """Refuse a condition that cannot be evaluated for any workload, or put into words."""
    if condition.dimension not in FEATURE_NAMES:
        raise ValueError(f"{condition.dimension[:40]!r} is no feature of a workload")
    value, plain_value = condition.value, feature_value(Workload(), condition.dimension)
    match condition.op:
        case Op.AT_LEAST | Op.AT_MOST:
            possible = _is_number(plain_value) and _is_alike(value, plain_value)
        case Op.EQUAL:
            possible = _is_alike(value, plain_value)
        case Op.ONE_OF:
            possible = isinstance(value, tuple) and all(_is_alike(each, plain_value) for each in value)
    if not possible:
        raise ValueError(f"{condition.dimension} cannot be compared by {condition.op} {value!r:.40}")
    return condition


def _is_alike(value: Any, plain_value: Any) -> bool:
    """Whether a value is of the kind that a feature has, given one of its values."""
    if isinstance(plain_value, bool):
        return isinstance(value, bool)
    if _is_number(plain_value):
        return _is_number(value) and 0 <= value < _MAX_NUMBER
    return isinstance(value, str | tuple)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_RECORDS = Codec(
    {
        Workload: Form(render, decode_workload),
        Mfs: Form(lambda mfs: CODEC.write(mfs.conditions), _decode_mfs),
        HostMeasurement: Shape(
            first=(
                *("host", "delivered_bps", "delivered_pps", "tx_pause_ratio", "rx_pause_ratio", "loss_ratio"),
                *("tx_pause_frames", "rx_pause_frames"),
            )
        ),
        Measurement: Shape(
            first=("window_seconds", "stable", "problems", "notes", "stopped", "health", "wrong_bytes", "victim"),
            without=("series",),
        ),
        Verdict: Shape(first=("outcome", "symptom", "severity", "host"), without=("signature", "received")),
        Anomaly: Shape(keys={"mfs": "features"}, is_open=True),
        Calibration: Shape(first=("measured_on",)),
    }
)
"""The JSON form of each record. Keys have the order of the first release."""

encode = _RECORDS.write


def decode(kind: type[T], raw: Any) -> T:
    """Read the result of `encode`."""
    return cast("T", _RECORDS.read(kind, raw))


def encode_anomaly(anomaly: Anomaly) -> Json:
    """Encode an anomaly. An id that cannot name a folder is refused."""
    require_id(anomaly.id)
    return cast("Json", encode(anomaly))


def decode_anomaly(raw: Any) -> Anomaly:
    """Decode an anomaly. One from an earlier Collie can lack the fields that have defaults."""
    anomaly = decode(Anomaly, raw)
    require_id(anomaly.id)
    if not 0 <= anomaly.fresh_shows <= anomaly.fresh_runs:
        raise ValueError(f"{anomaly.fresh_shows} of {anomaly.fresh_runs} fresh runs cannot show an anomaly")
    milder = anomaly.floor.milder
    if milder is not None and not (min(milder.bps, milder.pps) > 0 and anomaly.floor.slower >= 1.0):
        raise ValueError("an anomaly cannot show by being faster than another one")
    if anomaly.set_up is not None:
        require_phase(anomaly.workload, anomaly.set_up)
    elif anomaly.history:
        raise ValueError("the phases before it have no set-up")
    return anomaly


def require_phase(workload: Workload, on: SetUp) -> None:
    """Raise `ValueError` if a workload, or a phase before it, cannot run on a set-up."""
    for phase in (*on.before, workload):
        if reason := on.misfit(phase):
            raise ValueError(f"a phase does not fit its set-up: {reason}")


def decode_calibration(raw: Any) -> Calibration:
    """Decode a calibration. An earlier Collie wrote it as a list of points."""
    record: _Calibration = typed(_Calibration, {"points": raw} if isinstance(raw, list) else raw)
    links = tuple(decode(LinkLatency, link) for link in record.get("links", ()))
    return Calibration(record["points"], record.get("measured_on"), links)


class _Points(TypedDict):
    points: tuple[CalibrationPoint, ...]


class _Calibration(_Points, total=False):
    measured_on: str | None
    links: Sequence[Mapping[str, Any]]


_WITHOUT_MEASUREMENT: Mapping[str, type[RunResult]] = {
    "setup_failed": SetupFailed,
    "unsupported": Unsupported,
    "host_lost": HostLost,
    "pair_lost": PairLost,
}
_OUTCOMES = {kind: outcome for outcome, kind in _WITHOUT_MEASUREMENT.items()}


def encode_result(result: RunResult) -> Json:
    """Encode the result of a run without its samples, which `series.encode_series` packs."""
    if isinstance(result, Measured):
        set_up = {"stands": result.stands, "anew": result.anew}
        common = {"outcome": "measured", "elapsed_seconds": result.elapsed_seconds, **set_up}
        return {**common, **encode(result.measurement)}
    return {"outcome": _OUTCOMES[type(result)], **encode(result)}


def decode_result(raw: Any) -> RunResult:
    """Read the result of `encode_result`."""
    common: _Result = typed(_Result, raw)
    outcome, elapsed = common["outcome"], common["elapsed_seconds"]
    other = {key: value for key, value in raw.items() if key not in common}
    if outcome == "measured":
        return Measured(decode(Measurement, other), elapsed, common.get("stands", False), common.get("anew", False))
    if outcome not in _WITHOUT_MEASUREMENT:
        raise ValueError(f"outcome {outcome[:40]!r} of a run is unknown")
    return decode(_WITHOUT_MEASUREMENT[outcome], {**other, "elapsed_seconds": elapsed})


class _Outcome(TypedDict):
    outcome: str
    elapsed_seconds: float


class _Result(_Outcome, total=False):
    stands: bool
    anew: bool
