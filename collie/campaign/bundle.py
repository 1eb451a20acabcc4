"""Anomalies that run elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collie.campaign.reproduce import CountersAtDiscovery, Plan
from collie.detect.judge import Thresholds
from collie.detect.symptom import Symptom
from collie.inventory.fingerprint import Fingerprint
from collie.workloads.feature import Mfs
from collie.workloads.workload import Workload

BUNDLE_SUFFIX = ".pyz"


@dataclass(frozen=True)
class Bundle:
    """An anomaly with all data for another run and its verdict.

    Attributes:
        exported: RFC 3339.
        found_on: the testbed, in words.
        likely: hint for the cause, or empty.
        siblings: the plain sibling of each workload of the plan, for the bound.
        fingerprints: of the hosts at discovery, empty if not on record.
    """

    name: str
    collie_version: str
    exported: str
    found_on: str
    sentence: str
    likely: str
    symptom: Symptom
    mfs: Mfs
    plan: Plan
    siblings: Mapping[Workload, Workload]
    thresholds: Thresholds
    verify: bool = False
    at_discovery: CountersAtDiscovery | None = None
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)
