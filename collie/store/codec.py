"""From the model to JSON values and back, for everything that a campaign records. Pure: no I/O.

Floats survive exactly (`json` writes the shortest text that reads back as the same number). JSON has no infinity and no
NaN: where a reading may be unknown they become null, elsewhere they are refused: no reader could make sense of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from math import lcm
from typing import Any, TypedDict, cast

from collie.detect.bounds import Calibration, CalibrationPoint
from collie.detect.measurement import Measurement, Victim
from collie.detect.symptom import Symptom, Verdict
from collie.ports import CampaignHeader, HostLost, Measured, PairLost, RunResult, SetupFailed, Unsupported
from collie.search.anomaly import Anomaly, require_id
from collie.search.discriminating_counters import DiscriminatingCounter
from collie.untrusted import read_json, typed
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


def plain(value: Any) -> Any:
    """Reduce a value to what JSON can hold, so that it is equal to itself after a round trip.

    Raises:
        TypeError: there is no such form.
    """
    match value:
        case None | bool() | float() | int():
            return value
        case StrEnum():
            return value.value
        case str():
            return value
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Sequence() if not isinstance(value, bytes | bytearray):
            return [plain(item) for item in value]
    raise TypeError(f"{value!r} cannot be recorded")


def known(value: float | None) -> float | None:
    """Return a reading, or None for one that is no finite number."""
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(value)  # numpy's numbers among them


def readings(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return readings by name, each finite or None."""
    return {name: known(value) for name, value in values.items()}


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
    return [
        {"dimension": condition.dimension, "op": condition.op.value, "value": plain(condition.value)}
        for condition in mfs.conditions
    ]


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


# --- Results of runs --------------------------------------------------------------------------------------------------


def encode_result(result: RunResult) -> Json:
    """Write what came of a run, but for the samples over time (`series.encode_series`)."""
    match result:
        case Measured():
            return {
                "outcome": "measured",
                "elapsed_seconds": result.elapsed_seconds,
                **_measurement(result.measurement),
            }
        case SetupFailed():
            return {"outcome": "setup_failed", **asdict(result)}
        case Unsupported():
            return {"outcome": "unsupported", **asdict(result)}
        case HostLost():
            return {"outcome": "host_lost", **asdict(result)}
        case PairLost():
            return {"outcome": "pair_lost", **asdict(result)}


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


_WITHOUT_MEASUREMENT = {
    "setup_failed": SetupFailed,
    "unsupported": Unsupported,
    "host_lost": HostLost,
    "pair_lost": PairLost,
}


def _measurement(measurement: Measurement) -> Json:
    health = measurement.health
    return {
        "window_seconds": measurement.window_seconds,
        "stable": measurement.stable,
        "problems": list(measurement.problems),
        "notes": list(measurement.notes),
        "stopped": measurement.stopped,
        "health": {
            "driven": health.driven,
            "reason": health.reason,
            "idle_poll_ratio": known(health.idle_poll_ratio),
            "empty_queue_ratio": known(health.empty_queue_ratio),
            "completion_errors": dict(health.completion_errors),
            "qp_rate_ratio": known(health.qp_rate_ratio),
            "slowest_qp_share": known(health.slowest_qp_share),
            "cpu_wait_ratio": known(health.cpu_wait_ratio),
            "data_path": health.data_path,
            "queue_fill_ratio": known(health.queue_fill_ratio),
        },
        "wrong_bytes": measurement.wrong_bytes,
        "victim": _victim(measurement.victim),
        "hosts": [
            {
                "host": host.host,
                "delivered_bps": known(host.delivered_bps),
                "delivered_pps": known(host.delivered_pps),
                "tx_pause_ratio": known(host.tx_pause_ratio),
                "rx_pause_ratio": known(host.rx_pause_ratio),
                "loss_ratio": known(host.loss_ratio),
                "tx_pause_frames": known(host.tx_pause_frames),
                "rx_pause_frames": known(host.rx_pause_frames),
                "counters": readings(host.counters),
                "rnr_ratio": known(host.rnr_ratio),
                "repeat_ratio": known(host.repeat_ratio),
                "peak_bps": known(host.peak_bps),
            }
            for host in measurement.hosts
        ],
    }


def _victim(victim: Victim | None) -> Json | None:
    return None if victim is None else readings(asdict(victim))


def encode_verdict(verdict: Verdict) -> Json:
    """Write a verdict."""
    return {
        "outcome": verdict.outcome.value,
        "symptom": verdict.symptom.value if verdict.symptom else None,
        "severity": verdict.severity,
        "host": verdict.host,
        "reason": verdict.reason,
        "margin": verdict.margin,
    }


def decode_verdict(raw: Any) -> Verdict:
    """Read what `encode_verdict` wrote.

    Raises:
        ValueError: it is no such thing.
    """
    return cast("Verdict", typed(Verdict, raw))


# --- Campaigns --------------------------------------------------------------------------------------------------------


def encode_header(header: CampaignHeader) -> Json:
    """Write what fixes a campaign."""
    return {
        "campaign": header.campaign,
        "testbed": plain(header.testbed),
        "space": header.space,
        "recipe": header.recipe,
        "settings": plain(header.settings),
        "seed": header.seed,
        "started": header.started,
    }


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
    return {
        "id": require_id(anomaly.id),
        "symptom": anomaly.symptom.value,
        "severity": anomaly.severity,
        "workload": render(anomaly.workload),
        "found_as": render(anomaly.found_as),
        "features": encode_mfs(anomaly.mfs),
        "reason": anomaly.reason,
        "host": anomaly.host,
        "found_at_run": anomaly.found_at_run,
        "found_at_seconds": anomaly.found_at_seconds,
        "extraction_runs": anomaly.extraction_runs,
        "complete": anomaly.complete,
        "trials": anomaly.trials,
        "passed": anomaly.passed,
        "confidence": anomaly.confidence,
        "telling": [asdict(telling) for telling in anomaly.telling],
        "hint": anomaly.hint,
        "same_as": anomaly.same_as,
        "revised": [encode_mfs(mfs) for mfs in anomaly.revised],
    }


class _Found(TypedDict):
    """Keys of an anomaly that every Collie wrote."""

    id: str
    symptom: Symptom
    severity: float
    workload: Mapping[str, Any]
    found_as: Mapping[str, Any]
    features: Sequence[Any]
    reason: str
    host: str | None
    found_at_run: int
    found_at_seconds: float
    extraction_runs: int
    complete: bool


class _Anomaly(_Found, total=False):
    trials: int
    passed: int
    confidence: float | None
    telling: tuple[DiscriminatingCounter, ...]
    hint: str
    same_as: str | None
    revised: Sequence[Any]


def decode_anomaly(raw: Any) -> Anomaly:
    """Read what `encode_anomaly` wrote, or an earlier Collie, which knew of no telling counters.

    Raises:
        ValueError: it is no such thing, or its id is no name of a folder.
    """
    said: dict[str, Any] = dict(typed(_Anomaly, raw))
    require_id(said["id"])
    read = {
        "workload": decode_workload(said["workload"]),
        "found_as": decode_workload(said["found_as"]),
        "mfs": decode_mfs(said.pop("features")),
        "revised": tuple(decode_mfs(features) for features in said.get("revised", ())),
    }
    return Anomaly(**{**said, **read})


def encode_calibration(calibration: Calibration) -> Json:
    """Write a calibration."""
    points = [
        {
            "qp_type": point.qp_type.value,
            "opcode": point.opcode.value,
            "message_bytes": point.message_bytes,
            "bps": point.bps,
            "spread": point.spread,
        }
        for point in calibration.points
    ]
    return {"measured_on": calibration.measured_on, "points": points}


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
    measured_on: str | None
