"""A comparison of two campaigns.

1. Two anomalies are the same if their symptoms are related and the conditions of one hold for the simplest workload of
   the other. Names do not count. If several could be the same, those of the closest severity are paired, first among
   those whose severities can be compared.
2. A campaign can lack an anomaly because it never looked there. Thus its runs inside the conditions are counted.
3. Severity is that of the simplest workload of an explained anomaly, and otherwise of the workload that was found. Two
   severities are compared only if they are shares of the same thing.
4. Firmware is what campaigns are compared for. A difference in it is stated, and is no cause for doubt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from collie.app.adapters import ReportContext
from collie.detect.symptom import severity_is_of
from collie.inventory.fingerprint import Difference, HostDifference, compare
from collie.inventory.under_test import beyond, covers
from collie.ports import CampaignHeader, CampaignStore, RunRecord
from collie.search.anomaly import Anomaly, causes_of

_UNDER_TEST = ("firmware",)
_EQUAL_SEVERITY = 0.1
"""Severities that differ by less are equal. Two confirming runs of one workload can differ by as much."""


class Likeness(StrEnum):
    """Whether two testbeds have equal fingerprints, or differ only in what is under test."""

    SAME = "same"
    UNDER_TEST = "under test"
    UNLIKE = "unlike"
    UNKNOWN = "unknown"


class SeverityChange(StrEnum):
    """Severity compared with that in the other campaign. INCOMPARABLE: they are shares of different things."""

    WORSE = "worse"
    MILDER = "milder"
    ALIKE = "alike"
    INCOMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class ComparedCampaign:
    """One of the two campaigns. `kinds` are its anomalies with causes of their own, the most severe first."""

    name: str
    header: CampaignHeader
    context: ReportContext
    kinds: tuple[Anomaly, ...]
    records: tuple[RunRecord, ...]


@dataclass(frozen=True, slots=True)
class OnlyOne:
    """An anomaly that one campaign confirmed alone, and the other campaign's runs inside its conditions."""

    anomaly: Anomaly
    runs: int
    showed: int
    normal: int


@dataclass(frozen=True, slots=True)
class InBoth:
    """An anomaly of both campaigns."""

    here: Anomaly
    there: Anomaly

    @property
    def change(self) -> SeverityChange:
        """How the severity here differs from that in the other campaign."""
        if not self.is_comparable:
            return SeverityChange.INCOMPARABLE
        difference = self.here.severity - self.there.severity
        if abs(difference) < _EQUAL_SEVERITY:
            return SeverityChange.ALIKE
        return SeverityChange.WORSE if difference > 0 else SeverityChange.MILDER

    @property
    def is_comparable(self) -> bool:
        """Whether both severities are shares of the same thing, such as the time or the throughput."""
        here, there = (severity_is_of(each.symptom, each.severity, each.reason) for each in (self.here, self.there))
        return here is there


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """The page. An anomaly that the other campaign splits in two appears twice in `both`."""

    here: ComparedCampaign
    there: ComparedCampaign
    hosts: tuple[HostDifference, ...]
    only_here: tuple[OnlyOne, ...]
    only_there: tuple[OnlyOne, ...]
    both: tuple[InBoth, ...]

    @property
    def likeness(self) -> Likeness:
        """Whether the two testbeds are comparable."""
        if not (self.here.context.fingerprints and self.there.context.fingerprints):
            return Likeness.UNKNOWN
        if self.differing_fields:
            return Likeness.UNLIKE
        return Likeness.UNDER_TEST if self.under_test else Likeness.SAME

    @property
    def differing_fields(self) -> list[str]:
        """Fields that can change results, are not under test, and are not known to be equal."""
        unlike = [each.field for host in self.hosts for each in beyond(host.differences, _UNDER_TEST)]
        # The digest of a simulated subsystem follows its firmware.
        follows = {"subsystem.hardware"} if "subsystem.firmware" in {each.field for each in self.under_test} else set()
        return list(dict.fromkeys(field for field in unlike if field not in follows))

    @property
    def under_test(self) -> list[Difference]:
        """The differences in firmware, each once."""
        return list(
            {
                each.field: each
                for host in self.hosts
                for each in host.differences
                if each.changes_results and covers(_UNDER_TEST, each.field)
            }.values()
        )

    @property
    def changes(self) -> tuple[InBoth, ...]:
        """The anomalies of both campaigns whose severity differs or cannot be compared, the largest increase first."""
        return tuple(pair for pair in self.both if pair.change is not SeverityChange.ALIKE)

    @property
    def shared(self) -> tuple[int, int]:
        """Number of anomalies of either campaign that the other has as well. One can be two of the other."""
        return len({pair.here.id for pair in self.both}), len({pair.there.id for pair in self.both})

    @property
    def changed(self) -> list[tuple[SeverityChange, int]]:
        """Number of anomalies here with each change."""
        kinds = (SeverityChange.WORSE, SeverityChange.MILDER, SeverityChange.INCOMPARABLE)
        return [(kind, len({pair.here.id for pair in self.changes if pair.change is kind})) for kind in kinds]

    @property
    def alike(self) -> tuple[InBoth, ...]:
        """The anomalies of both campaigns with equal severity."""
        return tuple(pair for pair in self.both if pair.change is SeverityChange.ALIKE)


def compare_campaigns(
    here: CampaignStore, here_context: ReportContext, there: CampaignStore, there_context: ReportContext
) -> ComparisonPage:
    """Compare two campaigns."""
    alike = here.header.campaign == there.header.campaign
    one, other = (
        _side(context.place if alike else store.header.campaign, store, context)
        for store, context in ((here, here_context), (there, there_context))
    )
    both = _paired(InBoth(mine, its) for mine in one.kinds for its in other.kinds if same_anomaly(mine, its))
    known_here, known_there = {pair.here.id for pair in both}, {pair.there.id for pair in both}
    hosts = compare(here_context.fingerprints, there_context.fingerprints)
    return ComparisonPage(
        here=one,
        there=other,
        hosts=tuple(host for host in hosts if host.differences),
        only_here=tuple(_only_one(kind, other) for kind in one.kinds if kind.id not in known_here),
        only_there=tuple(_only_one(kind, one) for kind in other.kinds if kind.id not in known_there),
        both=tuple(sorted(both, key=lambda pair: pair.there.severity - pair.here.severity)),
    )


def _paired(candidates: Iterable[InBoth]) -> list[InBoth]:
    """Return the pairs of closest comparable severity, so that each anomaly with a partner has one.

    An anomaly has several partners only if they have no other partner.
    """
    pairs: list[InBoth] = []
    for pair in sorted(
        candidates, key=lambda pair: (not pair.is_comparable, abs(pair.here.severity - pair.there.severity))
    ):
        here, there = {each.here.id for each in pairs}, {each.there.id for each in pairs}
        if pair.here.id not in here or pair.there.id not in there:
            pairs.append(pair)
    return pairs


def same_anomaly(one: Anomaly, other: Anomaly) -> bool:
    """Whether anomalies of two campaigns are probably the same."""
    if not one.symptom.is_related(other.symptom):
        return False
    return (
        one.mfs.covers(other.workload)
        or other.mfs.covers(one.workload)
        or bool({one.workload, one.found_as} & {other.workload, other.found_as})
    )


def _side(name: str, store: CampaignStore, context: ReportContext) -> ComparedCampaign:
    kinds = [kind for kind, _ in causes_of(store.anomalies())]
    kinds.sort(key=lambda kind: -kind.severity)
    return ComparedCampaign(name, store.header, context, tuple(kinds), tuple(store.runs(with_series=False)))


def _only_one(anomaly: Anomaly, elsewhere: ComparedCampaign) -> OnlyOne:
    known = {anomaly.workload, anomaly.found_as}  # these are used if the anomaly has no conditions
    inside = [
        record.verdict
        for record in elsewhere.records
        if record.verdict is not None and (record.workload in known or anomaly.mfs.covers(record.workload))
    ]
    return OnlyOne(
        anomaly,
        runs=len(inside),
        showed=sum(anomaly.symptom.is_related(verdict.symptom) for verdict in inside),
        normal=sum(verdict.is_normal for verdict in inside),
    )
