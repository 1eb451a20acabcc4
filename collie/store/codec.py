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
from typing import Any

from collie.detect.bounds import Calibration, CalibrationPoint
from collie.detect.measurement import GeneratorHealth, HostMeasurement, Measurement, Victim
from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.ports import CampaignHeader, HostLost, Measured, RunResult, SetupFailed, Unsupported
from collie.search.anomaly import Anomaly
from collie.search.telling import Telling
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.parse import parse_workload
from collie.workloads.workload import Opcode, QpType, Workload, render

Json = dict[str, Any]


def dumps(value: Any) -> str:
    """Write JSON on one line, in ASCII: what a host printed may hold bytes that are no UTF-8.

    Raises:
        ValueError: an infinite or undefined number is left in it.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


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
    workload, complaints = parse_workload(raw)
    if workload is None:
        raise ValueError("; ".join(text for _, text in complaints))
    return workload


def encode_mfs(mfs: Mfs) -> list[Json]:
    """Write a minimal feature set."""
    return [
        {"dimension": condition.dimension, "op": condition.op.value, "value": plain(condition.value)}
        for condition in mfs.conditions
    ]


def decode_mfs(raw: Sequence[Mapping[str, Any]]) -> Mfs:
    """Read what `encode_mfs` wrote."""
    return Mfs(tuple(Condition(item["dimension"], Op(item["op"]), _tuples(item["value"])) for item in raw))


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


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


def decode_result(raw: Mapping[str, Any]) -> RunResult:
    """Read what `encode_result` wrote."""
    elapsed = raw["elapsed_seconds"]
    match raw["outcome"]:
        case "measured":
            return Measured(_read_measurement(raw), elapsed)
        case "setup_failed":
            return SetupFailed(raw["cause"], raw["detail"], elapsed)
        case "unsupported":
            return Unsupported(raw["reason"], elapsed)
        case "host_lost":
            return HostLost(raw["host"], raw["detail"], elapsed)
    raise ValueError(f"outcome {raw['outcome']!r} of a run is unknown")


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
            }
            for host in measurement.hosts
        ],
    }


def _read_measurement(raw: Mapping[str, Any]) -> Measurement:
    return Measurement(
        hosts=tuple(HostMeasurement(**host) for host in raw["hosts"]),
        window_seconds=raw["window_seconds"],
        stable=raw["stable"],
        health=GeneratorHealth(**raw["health"]),
        problems=tuple(raw["problems"]),
        notes=tuple(raw.get("notes", ())),
        wrong_bytes=raw.get("wrong_bytes"),
        stopped=raw.get("stopped"),
        victim=Victim(**raw["victim"]) if raw.get("victim") else None,
    )


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


def decode_verdict(raw: Mapping[str, Any]) -> Verdict:
    """Read what `encode_verdict` wrote."""
    symptom = Symptom(raw["symptom"]) if raw["symptom"] else None
    return Verdict(
        Outcome(raw["outcome"]), raw["reason"], symptom, raw["severity"], raw["host"], raw.get("margin", 0.0)
    )


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


def decode_header(raw: Mapping[str, Any]) -> CampaignHeader:
    """Read what `encode_header` wrote."""
    return CampaignHeader(**raw)


def encode_anomaly(anomaly: Anomaly) -> Json:
    """Write a finding."""
    return {
        "id": anomaly.id,
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


def decode_anomaly(raw: Mapping[str, Any]) -> Anomaly:
    """Read what `encode_anomaly` wrote, or an earlier Collie, which knew of no telling counters."""
    fields = dict(raw)
    return Anomaly(
        **{
            **{name: value for name, value in fields.items() if name != "features"},
            "symptom": Symptom(fields["symptom"]),
            "workload": decode_workload(fields["workload"]),
            "found_as": decode_workload(fields["found_as"]),
            "mfs": decode_mfs(fields["features"]),
            "telling": tuple(Telling(**telling) for telling in fields.get("telling", ())),
            "revised": tuple(decode_mfs(features) for features in fields.get("revised", ())),
        }
    )


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


def decode_calibration(raw: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Calibration:
    """Read what `encode_calibration` wrote, or an earlier Collie, which wrote a list of points without their day."""
    content: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {"points": raw}
    points = tuple(
        CalibrationPoint(
            QpType(point["qp_type"]), Opcode(point["opcode"]), point["message_bytes"], point["bps"], point["spread"]
        )
        for point in content["points"]
    )
    return Calibration(points, content.get("measured_on"))
