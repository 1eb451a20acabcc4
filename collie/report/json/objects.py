"""The JSON objects that commands print. Keys name the unit. Null is unknown. The store's schema is independent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from collie.campaign.observations import LostHost
from collie.campaign.reproduce import Reproduction, Trial
from collie.campaign.safety import SafetyRecord
from collie.campaign.single_run import JudgedRun, Phase
from collie.counters.catalog import Counter
from collie.detect.bounds import CalibrationPoint
from collie.detect.confirm import Reliability
from collie.detect.interval import Interval
from collie.detect.measurement import Measurement
from collie.detect.signature import Signature
from collie.inventory.fingerprint import HostDifference
from collie.inventory.safety import SafetyLimits
from collie.plain import Codec, Shape
from collie.ports import CampaignHeader, HostLost, Measured, PairLost, RunResult, SetupFailed, Unsupported
from collie.search.anomaly import Anomaly
from collie.search.likely_cause import DiscriminatingCounter
from collie.workloads.feature import Mfs
from collie.workloads.pruning import Drop
from collie.workloads.setup import SetUp
from collie.workloads.workload import render

if TYPE_CHECKING:  # they need numpy, and a bundle imports this module without numpy
    from collie.campaign.summary import Score, Summary, Unconfirmed

SCHEMA_VERSION = 1

Json = dict[str, Any]

OUTCOMES: Mapping[type[RunResult], str] = {
    Measured: "measured",
    SetupFailed: "setup_failed",
    Unsupported: "unsupported",
    HostLost: "host_lost",
    PairLost: "pair_lost",
}

_CODEC = Codec(
    {
        CalibrationPoint: Shape(keys={"bps": "delivered_bps"}),
        Counter: Shape(
            first=(
                *("name", "spelled", "canonical", "kind", "unit", "scale", "width", "saturates", "gauge", "source"),
                *("component", "role", "refresh_seconds", "availability", "link_layer"),
            ),
            keys={"width": "width_bits"},
        ),
        DiscriminatingCounter: Shape(without=("meaning",)),
        Reliability: Shape(keys={"dropped": "dropped_suspicions", "healthy_false_positive_rate": "disturbed_ratio"}),
        SafetyLimits: Shape(
            keys={"pause_per_second": "pause_seconds_per_second", "pause_per_campaign": "pause_seconds_per_campaign"}
        ),
    }
)


def plain(value: Any) -> Any:
    """Return a model as JSON values. A number that is not finite becomes null, and -0.0 becomes 0.0."""
    return _printable(_CODEC.write(value))


def _printable(value: Any) -> Any:
    match value:
        case float():
            return float(value) + 0.0 if math.isfinite(value) else None
        case dict():
            return {key: _printable(item) for key, item in value.items()}
        case list():
            return [_printable(item) for item in value]
    return value


def render_lost(lost: LostHost) -> Json:
    """Return the object of a run that cost a host."""
    return {"run": lost.run, "host": lost.host, "workload": render(lost.workload), "detail": lost.detail}


def render_search(
    header: CampaignHeader,
    summary: Summary,
    wall_seconds: float,
    score: Score | None = None,
    safety: SafetyRecord | None = None,
    dropped: Sequence[Drop] = (),
) -> Json:
    """Return the object of `collie search`. With a `score`, each anomaly also has its `mechanism`."""
    outlook = summary.discovery_estimate
    document = {
        "schema_version": SCHEMA_VERSION,
        "campaign": header.campaign,
        "testbed": _testbed(header.testbed),
        "recipe": header.recipe,
        "seed": header.seed,
        "dropped": plain(dropped),
        "runs": summary.runs,
        "set_ups": summary.set_ups,
        "ended_by": summary.ended_by,
        "failed_runs": sum(summary.failed_runs.values()),
        "elapsed_seconds": plain(summary.elapsed_seconds),
        "wall_seconds": plain(wall_seconds),
        "next_hour_chance": plain(outlook.next_hour_chance) if outlook else None,
        "trust": plain(summary.trust),
        "lost_machines": [render_lost(lost) for lost in summary.lost],
        "path_killers": [{"run": each.run, "workload": render(each.workload)} for each in summary.path_killers],
        "pairs": summary.pairs,
        "pairs_set_aside": dict(summary.set_aside),
        "repeated_phases": summary.repeated_phases,
        "changed_phases": summary.changed_phases,
        "known_elsewhere_not_confirmed": dict(summary.not_confirmed),
        "unconfirmed": [_unconfirmed(suspicion) for suspicion in summary.unconfirmed],
        "anomalies": [_anomaly(anomaly, score) for anomaly in summary.anomalies],
    }
    if score is not None:
        document["score"] = {
            "planted": list(score.planted),
            "found": list(score.found),
            "explained": list(score.explained),
            "missed": list(score.missed),
            "false": score.false,
            "absent": list(score.absent),
            "joined": score.joined,
            "hidden": list(score.hidden),
            "merged_wrong": {name: list(pair) for name, pair in score.merged_wrong.items()},
        }
    if safety is not None:
        document["safety"] = {"ended_by": summary.ended_by, **render_safety(safety)}
    return document


def with_safety(document: Json, safety: SafetyRecord | None) -> Json:
    """Return a document with the effect on the network, if there is a record of it."""
    return {**document, "safety": render_safety(safety)} if safety else document


def render_safety(safety: SafetyRecord) -> Json:
    """Return the effect on the network, and its limits."""
    document: Json = plain(safety)
    return document


def render_measures(judged: Sequence[JudgedRun]) -> Json:
    """Return the object of `collie measure`: that of the run, or a list of several in order."""
    if len(judged) == 1:
        return render_measure(judged[0])
    return {"schema_version": SCHEMA_VERSION, "measurements": [_measured(each) for each in judged]}


def render_measure(judged: JudgedRun) -> Json:
    """Return the object of one measured workload, samples included."""
    return {"schema_version": SCHEMA_VERSION, **_measured(judged)}


def _measured(judged: JudgedRun) -> Json:
    return {
        **_phase(judged.phase),
        "workload": render(judged.workload),
        **_result(judged.result),
        "plain_sibling": render(judged.sibling),
        "bound": plain(judged.bound),
        "host_bounds": plain(judged.host_bounds),
        "verdict": plain(judged.verdict),
    }


def _phase(phase: Phase | None) -> Json:
    if phase is None:
        return {}
    return {
        "set_up": phase.set_up,
        "phase": phase.number,
        "made_for": render(phase.made_for),
        "new_set_up_because": phase.apart or None,
    }


def render_reproduction(name: str, reproduction: Reproduction, changed: Sequence[HostDifference] | None = None) -> Json:
    """Return the object of `collie reproduce`. `changed` is None if the original testbed is not on record."""
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
        "uncontrolled": plain(reproduction.uncontrolled),
        "set_up": _set_up(reproduction.on),
        "alone": None
        if (alone := reproduction.alone) is None
        else {**_trial(alone, reproduction), "explains": reproduction.explains(alone)},
        "ended_by": reproduction.ended_by,
        "fingerprint_difference": render_differences(changed),
    }


def _set_up(on: SetUp | None) -> Json | None:
    if on is None:
        return None
    return {"made_for": render(on.made_for), "before": [render(phase) for phase in on.before]}


def _signature(reproduction: Reproduction) -> Json | None:
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
    """Return the differences of hosts, or None if one side is not on record."""
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
                    "significance": "results" if difference.changes_results else "informative",
                }
                for difference in each.differences
            ],
        }
        for each in found
    ]


def features(mfs: Mfs) -> list[Json]:
    """Return the conditions of a minimal feature set."""
    conditions: list[Json] = plain(mfs.conditions)
    return conditions


def _testbed(testbed: Mapping[str, Any]) -> Json:
    if testbed.get("kind") == "simulated":
        return {"kind": "simulated", "subsystem": testbed.get("subsystem", testbed.get("name"))}
    document: Json = plain(testbed)
    return document


def _anomaly(anomaly: Anomaly, score: Score | None) -> Json:
    document = {
        "id": anomaly.id,
        "symptom": str(anomaly.symptom),
        "severity": plain(anomaly.severity),
        "workload": render(anomaly.workload),
        "features": features(anomaly.mfs),
        "sentence": anomaly.sentence,
        "found_severity": plain(anomaly.found_severity),
        "found_reason": anomaly.found_reason,
        "found_at_run": anomaly.found_at_run,
        "found_at_seconds": plain(anomaly.found_at_seconds),
        "extraction_runs": anomaly.extraction_runs,
        "complete": anomaly.complete,
        "confidence": plain(anomaly.confidence),
        "fresh_runs": anomaly.fresh_runs,
        "fresh_shows": anomaly.fresh_shows,
        "least_severity": plain(anomaly.floor.severity),
        "most_received": plain(anomaly.floor.most_received),
        "shown_ratio_interval": _interval(anomaly.shown_interval),
        "revised": [features(mfs) for mfs in anomaly.revised],
        "same_as": anomaly.same_as,
        "likely_same_as": plain(anomaly.likely_same_as),
        "set_up": _set_up(anomaly.set_up),
        "telling": plain(anomaly.telling),
        "hint": anomaly.hint,
        "is_plain": anomaly.is_plain,
        "known_as": anomaly.known_as,
    }
    if score is not None:
        document["mechanism"] = score.mechanisms.get(anomaly.id)
    return document


def _interval(interval: Interval | None) -> Json | None:
    return None if interval is None else {"method": "wilson", **plain(interval)}


def _unconfirmed(suspicion: Unconfirmed) -> Json:
    return {
        "run": suspicion.run,
        "workload": render(suspicion.workload),
        "symptom": plain(suspicion.verdict.symptom),
        "severity": plain(suspicion.verdict.severity),
        "reason": suspicion.verdict.reason,
        "shows": suspicion.shows,
        "runs": suspicion.runs,
    }


def _result(result: RunResult) -> Json:
    return {
        "outcome": OUTCOMES[type(result)],
        "problem": _problem(result),
        "elapsed_seconds": plain(result.elapsed_seconds),
        "measurement": _measurement(result.measurement) if isinstance(result, Measured) else None,
    }


def _problem(result: RunResult) -> str | None:
    match result:
        case Measured():
            return None
        case SetupFailed(cause, detail):
            return f"{cause}: {detail}"
        case Unsupported(reason):
            return reason
        case HostLost(_, detail) | PairLost(_, detail):
            return detail


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
        "verdicts": plain(trial.verdicts),
        "delivered_bps": [reading.delivered_bps for reading in trial.readings],
        "victim_lost_ratio": [reading.victim_lost_ratio for reading in trial.readings],
    }
