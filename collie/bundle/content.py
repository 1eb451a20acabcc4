"""The anomaly of a bundle as data: its workloads, thresholds, observations and hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from collie.agent.workload import LIMITS
from collie.campaign.reproduce import Bundle, CountersAtDiscovery, Plan
from collie.detect.signature import Levels, Signature
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.inventory.fingerprint import Fingerprint
from collie.plain import CODEC, typed
from collie.search.anomaly import Claim
from collie.store import codec
from collie.store.codec import Json
from collie.untrusted import UNSAFE_CHARACTERS
from collie.workloads.constraint import VERBS, HostLimits, within
from collie.workloads.feature import Condition, Mfs
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload, render

VERSION = 3
"""Version 2 can have a `set_up`, version 3 a `victim`. A bundle without them keeps the version of older ones."""

_TEXTS = ("name", "collie_version", "exported", "found_on", "sentence", "likely")


def encode(bundle: Bundle) -> Json:
    """Return plain values from which `decode` makes the same bundle."""
    at_discovery = bundle.at_discovery
    return {
        "bundle_version": VERSION if bundle.victim else 2 if bundle.plan.on else 1,
        **{key: getattr(bundle, key) for key in _TEXTS},
        "symptom": bundle.symptom.value,
        "features": codec.encode(bundle.mfs),
        "claim": CODEC.write(bundle.claim),
        "anomaly": _run(bundle, bundle.plan.anomaly),
        "controls": [
            {"broken": codec.encode(Mfs((condition,)))[0], **_run(bundle, workload)}
            for workload, condition in bundle.plan.controls
        ],
        "uncontrolled": codec.encode(Mfs(bundle.plan.uncontrolled)),
        **({"set_up": codec.encode(bundle.plan.on)} if bundle.plan.on else {}),
        "thresholds": CODEC.write(bundle.thresholds),
        "verify": bundle.verify,
        **({"victim": {"offered_bps": bundle.victim_bps}} if bundle.victim else {}),
        "counters": at_discovery and {**CODEC.write(at_discovery.signature), **CODEC.write(at_discovery.levels)},
        "fingerprints": {host: CODEC.write(each.values) for host, each in bundle.fingerprints.items()},
    }


def decode(raw: Any) -> Bundle:
    """Inverse of `encode`. Raises `ValueError` for other data, and for a workload that no device can run."""
    try:
        if raw["bundle_version"] not in range(1, VERSION + 1):
            raise ValueError(f"its version is {raw['bundle_version']!r}; this Collie reads 1 to {VERSION}")
        if wrong := next((text for text in _texts(raw) if UNSAFE_CHARACTERS.search(text)), None):
            raise ValueError(f"it holds characters that steer a terminal, in {wrong[:40]!a}")
        return _decoded(raw)
    except (KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"something is missing or of a wrong kind: {error!r}") from None


def _run(bundle: Bundle, workload: Workload) -> Json:
    return {"workload": render(workload), "plain_sibling": render(bundle.siblings[workload])}


def _decoded(raw: Mapping[str, Any]) -> Bundle:
    siblings: dict[Workload, Workload] = {}

    def workload(run: Mapping[str, Any]) -> Workload:
        ran = _possible(run["workload"])
        siblings[ran] = _possible(run["plain_sibling"])
        return ran

    anomaly = workload(raw["anomaly"])
    controls = tuple((workload(control), _conditions([control["broken"]])[0]) for control in raw["controls"])
    mfs, symptom = Mfs(_conditions(raw["features"])), Symptom(raw["symptom"])
    if not all(condition.holds(anomaly) for condition in mfs.conditions):
        raise ValueError(f"its workload does not satisfy its own conditions, {mfs}")
    return Bundle(
        **{key: typed(str, raw[key]) for key in _TEXTS},
        symptom=symptom,
        mfs=mfs,
        plan=Plan(anomaly, controls, _conditions(raw["uncontrolled"]), _set_up(raw.get("set_up"), anomaly)),
        siblings=siblings,
        thresholds=typed(Thresholds, raw["thresholds"]),
        verify=raw["verify"] is True,
        at_discovery=_at_discovery(raw["counters"]),
        **_victim(raw, symptom),
        claim=typed(Claim, raw.get("claim", {})),
        fingerprints={
            host: Fingerprint(values)
            for host, values in typed(Mapping[str, Mapping[str, Mapping[str, Any]]], raw["fingerprints"]).items()
        },
    )


def _set_up(raw: Mapping[str, Any] | None, anomaly: Workload) -> SetUp | None:
    if raw is None:
        return None
    on = SetUp(_possible(raw["made_for"]), tuple(map(_possible, raw["before"])))
    codec.require_phase(anomaly, on)
    return on


def _victim(raw: Mapping[str, Any], symptom: Symptom) -> dict[str, Any]:
    """Return whether there is a victim, and its load."""
    if "victim" not in raw:
        if symptom.is_of_victim:
            raise ValueError("it lacks the victim that its anomaly holds up: an older Collie wrote it; export it again")
        return {}
    load: int = typed(int, raw["victim"]["offered_bps"])
    if not LIMITS["offered_bps"][0] <= load <= LIMITS["offered_bps"][1]:
        raise ValueError(f"its victim has a load of {load} bits/s, which no agent offers")
    return {"victim": True, "victim_bps": load}


def _possible(raw: Mapping[str, Any]) -> Workload:
    workload = codec.decode_workload(raw)
    for constraint in VERBS + within(HostLimits()):
        if complaint := constraint.check(workload):
            raise ValueError(complaint)
    return workload


def _conditions(raw: Any) -> tuple[Condition, ...]:
    return codec.decode(Mfs, raw).conditions


def _at_discovery(raw: Mapping[str, Any] | None) -> CountersAtDiscovery | None:
    if raw is None:
        return None
    signature = typed(Signature, {"raised": raw["raised"]})
    return CountersAtDiscovery(signature, typed(Levels, {"ordinary": raw["ordinary"], "packets": raw["packets"]}))


def _texts(raw: Any) -> Iterator[str]:
    """Yield every text in plain values, keys too."""
    match raw:
        case str():
            yield raw
        case Mapping():
            for key, value in raw.items():
                yield from _texts(key)
                yield from _texts(value)
        case list():
            for item in raw:
                yield from _texts(item)
