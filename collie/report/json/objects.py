"""The JSON objects that commands print: `schema_version`, units in key names, null for unknown.

These are a contract with whoever parses them and change on their own schedule, apart from the store's schema.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from collie.campaign.reproduce import Reproduction, Trial
from collie.campaign.safety import SafetyRecord
from collie.campaign.single_run import JudgedRun
from collie.detect.confirm import Reliability
from collie.detect.interval import Interval
from collie.detect.measurement import Measurement
from collie.detect.signature import Signature
from collie.inventory.fingerprint import HostDifference
from collie.plain import CODEC
from collie.ports import CampaignHeader, HostLost, Measured, PairLost, RunResult, SetupFailed, Unsupported
from collie.search.anomaly import Anomaly
from collie.workloads.feature import Mfs
from collie.workloads.pruning import Drop
from collie.workloads.workload import render

if TYPE_CHECKING:  # what searches needs numpy, and a bundle, which prints by this module too, has none
    from collie.campaign.summary import Summary

SCHEMA_VERSION = 1

Json = dict[str, Any]


class ScoreView(Protocol):
    """How a search did against the simulator's ground truth. The simulator, which this package cannot see, makes it."""

    @property
    def mechanisms(self) -> Mapping[str, str | None]:
        """Of each anomaly, by its id; None for a false one."""
        ...

    @property
    def planted(self) -> Sequence[str]:
        """Mechanisms that the subsystem has."""
        ...

    @property
    def found(self) -> Sequence[str]:
        """Those of them that some anomaly shows."""
        ...

    @property
    def missed(self) -> Sequence[str]:
        """Those that none shows."""
        ...

    @property
    def false(self) -> int:
        """Anomalies that no mechanism explains."""
        ...


def plain(value: Any) -> Any:
    """Reduce models to JSON values; a number that is not finite is unknown, and so null; zero has no sign."""
    return _printable(CODEC.write(value))


def _printable(value: Any) -> Any:
    match value:
        case float():
            return float(value) + 0.0 if math.isfinite(value) else None
        case dict():
            return {key: _printable(item) for key, item in value.items()}
        case list():
            return [_printable(item) for item in value]
    return value


def render_search(
    header: CampaignHeader,
    summary: Summary,
    wall_seconds: float,
    score: ScoreView | None = None,
    safety: SafetyRecord | None = None,
    dropped: Sequence[Drop] = (),
) -> Json:
    """Return what `collie search` prints at its end, keys in the documented order.

    Args:
        header: of the campaign.
        summary: how it ended.
        wall_seconds: how long the user waited.
        score: adds each anomaly's `mechanism`, and `score`.
        safety: adds `safety`.
        dropped: what was left out of the space because the testbed cannot do it.
    """
    outlook, confidence = summary.discovery_estimate, summary.trust
    document = {
        "schema_version": SCHEMA_VERSION,
        "campaign": header.campaign,
        "testbed": _testbed(header.testbed),
        "recipe": header.recipe,
        "seed": header.seed,
        "dropped": plain(dropped),
        "runs": summary.runs,
        "failed_runs": sum(summary.failed_runs.values()),
        "elapsed_seconds": plain(summary.elapsed_seconds),
        "wall_seconds": plain(wall_seconds),
        "next_hour_chance": plain(outlook.next_hour_chance) if outlook else None,
        "trust": _trust(confidence) if confidence else None,
        "lost_machines": [
            {"run": lost.run, "host": lost.host, "workload": render(lost.workload), "detail": lost.detail}
            for lost in summary.lost
        ],
        "path_killers": [{"run": each.run, "workload": render(each.workload)} for each in summary.path_killers],
        "pairs": summary.pairs,
        "pairs_set_aside": dict(summary.set_aside),
        "anomalies": [_anomaly(anomaly, score) for anomaly in summary.anomalies],
    }
    if score is not None:
        document["score"] = {
            "planted": list(score.planted),
            "found": list(score.found),
            "missed": list(score.missed),
            "false": score.false,
        }
    if safety is not None:
        document["safety"] = {"ended_by": summary.ended_by, **render_safety(safety)}
    return document


def render_safety(safety: SafetyRecord) -> Json:
    """Return what was done to the network, and under which limits."""
    return {
        "limits": {
            "pause_seconds_per_second": safety.limits.pause_per_second,
            "pause_seconds_per_campaign": safety.limits.pause_per_campaign,
            "rate_bps": safety.limits.rate_bps,
        },
        "pause_seconds": plain(safety.pause_seconds),
        "stopped_runs": safety.stopped_runs,
        "queue_pairs_left": dict(safety.queue_pairs_left),
    }


def render_measure(judged: JudgedRun) -> Json:
    """Return what `collie measure` prints: the whole measurement, samples included, and the verdict."""
    return {
        "schema_version": SCHEMA_VERSION,
        "workload": render(judged.workload),
        **_result(judged.result),
        "plain_sibling": render(judged.sibling),
        "bound": plain(judged.bound),
        "verdict": plain(judged.verdict),
    }


def render_reproduction(name: str, reproduction: Reproduction, changed: Sequence[HostDifference] | None = None) -> Json:
    """Return what `collie reproduce` prints.

    Args:
        name: of the anomaly, as the user said it.
        reproduction: its runs and its controls.
        changed: how the testbed differs from the one that the anomaly was found on; None when that is not on record.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "anomaly": name,
        "symptom": str(reproduction.symptom),
        "reproduced": str(reproduction.answer),
        **_trial(reproduction.trial, reproduction),
        "symptoms": {str(symptom): count for symptom, count in reproduction.trial.symptoms.items()},
        "signature": _signature(reproduction),
        "controls": [
            {
                "broken": plain(control.broken),
                **_trial(control, reproduction),
                "explains": reproduction.explains(control),
            }
            for control in reproduction.controls
        ],
        "uncontrolled": [plain(condition) for condition in reproduction.uncontrolled],
        "ended_by": reproduction.ended_by,
        "fingerprint_difference": render_differences(changed),
    }


def _signature(reproduction: Reproduction) -> Json | None:
    """Return whether the counters moved as when the anomaly was found; None when that is not on record."""
    if reproduction.at_discovery is None:
        return None
    now = reproduction.signature
    return {
        "same": reproduction.same_counters,
        "then": _raised(reproduction.at_discovery.signature),
        "now": None if now is None else _raised(now),
    }


def _raised(signature: Signature) -> list[Json]:
    return [{"counter": name, "times_ordinary": plain(2.0**height)} for name, height in signature.raised]


def render_differences(found: Sequence[HostDifference] | None) -> list[Json] | None:
    """Return how hosts differ; None when one side is not on record."""
    if found is None:
        return None
    return [
        {
            "hosts": [each.a, each.b],
            "changes_results": each.changes_results,
            "differences": [
                {
                    "field": difference.field,
                    "values": [plain(difference.a), plain(difference.b)],
                    "known": not difference.unknown,
                    "significance": str(difference.significance),
                }
                for difference in each.differences
            ],
        }
        for each in found
    ]


def features(mfs: Mfs) -> list[Json]:
    """Return the conditions of a minimal feature set."""
    return [plain(condition) for condition in mfs.conditions]


def _testbed(testbed: Mapping[str, Any]) -> Json:
    if testbed.get("kind") == "simulated":
        return {"kind": "simulated", "subsystem": testbed.get("subsystem", testbed.get("name"))}
    document: Json = plain(testbed)
    return document


def _anomaly(anomaly: Anomaly, score: ScoreView | None) -> Json:
    document = {
        "id": anomaly.id,
        "symptom": str(anomaly.symptom),
        "severity": plain(anomaly.severity),
        "workload": render(anomaly.workload),
        "features": features(anomaly.mfs),
        "sentence": anomaly.sentence,
        "found_at_run": anomaly.found_at_run,
        "found_at_seconds": plain(anomaly.found_at_seconds),
        "extraction_runs": anomaly.extraction_runs,
        "complete": anomaly.complete,
        "confidence": plain(anomaly.confidence),
        "revised": [features(mfs) for mfs in anomaly.revised],
        "same_as": anomaly.same_as,
        "telling": [
            {"counter": telling.counter, "component": telling.component, "factor": plain(telling.factor)}
            for telling in anomaly.telling
        ],
        "hint": anomaly.hint,
    }
    if score is not None:
        document["mechanism"] = score.mechanisms.get(anomaly.id)
    return document


def _trust(confidence: Reliability) -> Json:
    return {
        "judged_runs": confidence.judged_runs,
        "dropped_suspicions": confidence.dropped,
        "disturbed_ratio": plain(confidence.healthy_false_positive_rate),
        "false_chance": plain(confidence.false_chance),
        "miss_chance": plain(confidence.miss_chance),
    }


def _result(result: RunResult) -> Json:
    match result:
        case Measured():
            outcome, problem = "measured", None
        case SetupFailed():
            outcome, problem = "setup_failed", f"{result.cause}: {result.detail}"
        case Unsupported():
            outcome, problem = "unsupported", result.reason
        case HostLost():
            outcome, problem = "host_lost", result.detail
        case PairLost():
            outcome, problem = "pair_lost", result.detail
    return {
        "outcome": outcome,
        "problem": problem,
        "elapsed_seconds": plain(result.elapsed_seconds),
        "measurement": _measurement(result.measurement) if isinstance(result, Measured) else None,
    }


def _measurement(measurement: Measurement) -> Json:
    victim = measurement.victim
    lost = {"victim": {**plain(victim), "lost_ratio": plain(victim.lost_ratio)}} if victim else {}
    return {**plain(measurement), **lost}


def _trial(trial: Trial, reproduction: Reproduction) -> Json:
    return {
        "workload": render(trial.workload),
        "runs": len(trial.verdicts),
        "shown": trial.reproduced(reproduction.symptom),
        "normal": trial.normal,
        "inconclusive": trial.inconclusive,
        "shown_ratio_interval": _interval(trial.share(reproduction.symptom)),
        "verdicts": [plain(verdict) for verdict in trial.verdicts],
        "delivered_bps": [reading.delivered_bps for reading in trial.readings],
    }


def _interval(interval: Interval | None) -> Json | None:
    return None if interval is None else {"method": "wilson", **plain(interval)}
