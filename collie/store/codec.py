"""From the model to JSON values and back, for everything that a campaign records. Pure: no I/O.

Floats survive exactly (`json` writes the shortest text that reads back as the same number). JSON has no infinity and no
NaN: where a reading may be unknown they become null, elsewhere they are refused: no reader could make sense of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import lcm
from typing import Any, TypedDict, cast

from collie.detect.bounds import Calibration, CalibrationPoint
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.symptom import Verdict
from collie.plain import CODEC, Codec, Form, Shape, typed
from collie.ports import CampaignHeader, HostLost, Measured, PairLost, RunResult, SetupFailed, Unsupported
from collie.search.anomaly import Anomaly, require_id
from collie.untrusted import read_json
from collie.workloads.constraint import MAX_REQUESTS_IN_TURN
from collie.workloads.feature import FEATURE_NAMES, Condition, Mfs, Op, feature_value
from collie.workloads.parse import parse_workload
from collie.workloads.workload import Workload, render

Json = dict[str, Any]

MAX_VALUES = 100_000
"""Of one text: a run on eight hosts with 10,000 counters each has 80,000. They take up to 20 MB."""


def dumps(value: Any) -> str:
    """Write JSON on one line, in ASCII: what a host printed may hold bytes that are no UTF-8.

    Raises:
        ValueError: an infinite or undefined number is left in it.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def loads(text: Any) -> Any:
    """Read JSON of a campaign, which somebody else may have made.

    Raises:
        ValueError: it is none, or has more than `MAX_VALUES`.
    """
    return read_json(require_few_values(typed(str, text), MAX_VALUES))


def require_few_values(text: str, most: int) -> str:
    """Refuse JSON of so many values that it would take much more memory than its text: up to 60 times as much.

    Raises:
        ValueError: it may have more than `most`; what separates values is counted, be it within a text.
    """
    if sum(map(text.count, ",[{")) > most:
        raise ValueError(f"it has more than {most:,} values")
    return text


# --- Workloads and features -------------------------------------------------------------------------------------------


def decode_workload(raw: Mapping[str, Any]) -> Workload:
    """Read what `workload.render` wrote.

    Raises:
        ValueError: it is not a workload.
    """
    workload, complaints = parse_workload(typed(Mapping[str, Any], raw))
    if workload is None:
        raise ValueError("; ".join(text for _, text in complaints[:3]))
    if lcm(1 + len(workload.more_opcodes), len(workload.messages)) > MAX_REQUESTS_IN_TURN:
        raise ValueError("its requests do not repeat soon enough")
    return workload


def encode_mfs(mfs: Mfs) -> list[Json]:
    """Write a minimal feature set."""
    return [CODEC.write(condition) for condition in mfs.conditions]


_Bound = bool | int | float | str


class _Condition(TypedDict):
    dimension: str
    op: Op
    value: _Bound | Sequence[_Bound | Sequence[_Bound]]


def decode_mfs(raw: Any) -> Mfs:
    """Read what `encode_mfs` wrote.

    Raises:
        ValueError: it is no such thing.
    """
    conditions: Sequence[_Condition] = typed(Sequence[_Condition], raw)
    return Mfs(tuple(_answerable(Condition(each["dimension"], each["op"], each["value"])) for each in conditions))


def _answerable(condition: Condition) -> Condition:
    """Refuse a condition that no workload could be asked."""
    if condition.dimension not in FEATURE_NAMES:
        raise ValueError(f"{condition.dimension[:40]!r} is no feature of a workload")
    is_list, plain_value = isinstance(condition.value, tuple), feature_value(Workload(), condition.dimension)
    if condition.op in (Op.AT_LEAST, Op.AT_MOST):
        possible = _is_number(condition.value) and _is_number(plain_value)
    else:
        possible = is_list or condition.op is Op.EQUAL
    if not possible:
        raise ValueError(f"{condition.dimension} cannot be compared by {condition.op} {condition.value!r:.40}")
    return condition


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_RECORDS = Codec(
    {
        Workload: Form(render, decode_workload),
        Mfs: Form(encode_mfs, decode_mfs),
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
        Verdict: Shape(first=("outcome", "symptom", "severity", "host"), without=("signature",)),
        Anomaly: Shape(keys={"mfs": "features"}, is_open=True),
        Calibration: Shape(first=("measured_on",)),
    }
)
"""Keys stand in the order of the first release, so that a record reads the same in every version."""


# --- Results of runs --------------------------------------------------------------------------------------------------

_WITHOUT_MEASUREMENT: Mapping[str, type[RunResult]] = {
    "setup_failed": SetupFailed,
    "unsupported": Unsupported,
    "host_lost": HostLost,
    "pair_lost": PairLost,
}
_OUTCOMES = {kind: outcome for outcome, kind in _WITHOUT_MEASUREMENT.items()}


def encode_result(result: RunResult) -> Json:
    """Write what came of a run, but for the samples over time (`series.encode_series`)."""
    if isinstance(result, Measured):
        measured = {"outcome": "measured", "elapsed_seconds": result.elapsed_seconds}
        return {**measured, **_RECORDS.write(result.measurement)}
    return {"outcome": _OUTCOMES[type(result)], **_RECORDS.write(result)}


def decode_result(raw: Any) -> RunResult:
    """Read what `encode_result` wrote.

    Raises:
        ValueError: it is no such thing.
    """
    common: _Result = typed(_Result, raw)
    outcome, elapsed = common["outcome"], common["elapsed_seconds"]
    said = {key: value for key, value in raw.items() if key not in common}
    if outcome == "measured":
        return Measured(typed(Measurement, said), elapsed)
    if outcome not in _WITHOUT_MEASUREMENT:
        raise ValueError(f"outcome {outcome[:40]!r} of a run is unknown")
    return cast("RunResult", typed(_WITHOUT_MEASUREMENT[outcome], {**said, "elapsed_seconds": elapsed}))


class _Result(TypedDict):
    outcome: str
    elapsed_seconds: float


def encode_verdict(verdict: Verdict) -> Json:
    """Write a verdict."""
    return cast("Json", _RECORDS.write(verdict))


def decode_verdict(raw: Any) -> Verdict:
    """Read what `encode_verdict` wrote.

    Raises:
        ValueError: it is no such thing.
    """
    return cast("Verdict", typed(Verdict, raw))


# --- Campaigns --------------------------------------------------------------------------------------------------------


def encode_header(header: CampaignHeader) -> Json:
    """Write what fixes a campaign."""
    return cast("Json", _RECORDS.write(header))


def decode_header(raw: Any) -> CampaignHeader:
    """Read what `encode_header` wrote.

    Raises:
        ValueError: it is no such thing.
    """
    return cast("CampaignHeader", typed(CampaignHeader, raw))


def encode_anomaly(anomaly: Anomaly) -> Json:
    """Write a finding.

    Raises:
        ValueError: its id is none: `decode_anomaly` would refuse it.
    """
    require_id(anomaly.id)
    return cast("Json", _RECORDS.write(anomaly))


def decode_anomaly(raw: Any) -> Anomaly:
    """Read what `encode_anomaly` wrote, or an earlier Collie, which knew of no telling counters.

    Raises:
        ValueError: it is no such thing, or its id is no name of a folder.
    """
    anomaly: Anomaly = _RECORDS.read(Anomaly, raw)
    require_id(anomaly.id)
    return anomaly


def encode_calibration(calibration: Calibration) -> Json:
    """Write a calibration."""
    return cast("Json", _RECORDS.write(calibration))


def decode_calibration(raw: Any) -> Calibration:
    """Read what `encode_calibration` wrote, or an earlier Collie, which wrote a list of points without their day.

    Raises:
        ValueError: it is no such thing.
    """
    said: _Calibration = typed(_Calibration, {"points": raw} if isinstance(raw, list) else raw)
    return Calibration(said["points"], said.get("measured_on"))


class _Points(TypedDict):
    points: tuple[CalibrationPoint, ...]


class _Calibration(_Points, total=False):
    """Every record of a calibration has points, and may have other keys."""

    measured_on: str | None
