"""An anomaly with everything that running and judging it elsewhere takes."""

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
"""Of a bundle's file: a program for Python."""


@dataclass(frozen=True)
class Bundle:
    """An anomaly with everything that running and judging it again takes.

    Attributes:
        name: of the anomaly, as its exporter named it.
        collie_version: of the Collie that exported it.
        exported: when, RFC 3339.
        found_on: the testbed, in words.
        sentence: what was found, for people.
        likely: what the counters point at, empty where they do not tell.
        symptom: what has to show.
        mfs: the conditions, of which breaking any one makes it go.
        plan: the workload and its controls.
        siblings: the plain sibling of each of them, which gives the bound.
        thresholds: from where on a reading is an anomaly.
        verify: compare what arrives with what was sent.
        at_discovery: what the counters showed, None when that is not on record.
        fingerprints: of the hosts that it was found on, empty when that is not on record.
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
