"""What the runs so far say of a run: its bound, its verdict and its raised counters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from operator import attrgetter
from statistics import median

from collie.counters.catalog import Catalog
from collie.detect.bounds import NOTHING_EXPECTED, Bounds
from collie.detect.judge import can_be_late, judge
from collie.detect.links import judge_links, late_as_well
from collie.detect.measurement import Measurement
from collie.detect.signature import Levels, Ordinary, Signature
from collie.detect.symptom import Symptom, Verdict, inconclusive
from collie.detect.thresholds import Loss, Thresholds
from collie.ports import RunRecord
from collie.workloads.workload import Workload


class Judgement:
    """The verdicts of one campaign.

    Plain siblings set the bounds. Healthy runs of the search set the levels, unless `levels` is given.
    """

    def __init__(self, bounds: Bounds, thresholds: Thresholds, catalog: Catalog, levels: Levels | None = None) -> None:
        self.bounds = bounds
        self._unfit: dict[Workload, str] = {}
        self._thresholds = thresholds
        self._given = levels
        self._ordinary = Ordinary(catalog)
        self._evidence: dict[Workload, list[tuple[Verdict, Measurement]]] = {}
        self._first_runs: dict[tuple[Workload, Symptom], int] = {}
        self._of_links: Verdict | None = None

    def learn(self, record: RunRecord, verdict: Verdict, measurement: Measurement) -> Verdict:
        """Keep a judged run as evidence. Return its verdict with its signature."""
        if verdict.is_normal and record.purpose == "search":  # probes close to an anomaly have high counters
            self._ordinary.learn(measurement)
        verdict = self.with_signature(verdict, measurement)
        self._evidence.setdefault(record.workload, []).append((verdict, measurement))
        if verdict.symptom is not None:
            self._first_runs.setdefault((record.workload, verdict.symptom), record.run)
        return verdict

    def first_run(self, workload: Workload, symptom: Symptom) -> int:
        """Return the number of the first run in which a workload showed a symptom."""
        return self._first_runs[workload, symptom]

    def signature(self, measurement: Measurement) -> Signature:
        """Return the raised counters of a run, relative to the healthy runs so far."""
        return (self._given or self._ordinary.levels).signature(measurement)

    def judgements(self) -> Iterator[tuple[Workload, Verdict]]:
        """Yield every judged workload with each of its verdicts.

        Signatures are computed anew, because levels improve during a campaign.
        """
        for workload, judged in self._evidence.items():
            for verdict, measurement in judged:
                yield workload, self.with_signature(verdict, measurement)

    def measurement(self, workload: Workload) -> Measurement | None:
        """Return the first anomalous measurement of a workload, or None without any."""
        judged = self._evidence.get(workload, ())
        return next((measurement for verdict, measurement in judged if verdict.is_anomalous), None)

    def severity(self, workload: Workload) -> float | None:
        """Return the median severity of a workload's anomalous runs, or None without any."""
        severities = [verdict.severity for verdict, _ in self._evidence.get(workload, ()) if verdict.is_anomalous]
        return median(severities) if severities else None

    def typical(self, workload: Workload, symptom: Symptom) -> Verdict | None:
        """Return the verdict of middle severity of a workload's runs with a symptom, or None without any."""
        judged = self._evidence.get(workload, ())
        own = sorted((each for each, _ in judged if each.symptom is symptom), key=attrgetter("severity"))
        return own[len(own) // 2] if own else None

    def is_yardstick(self, plain: Workload, measurement: Measurement) -> bool:
        """Whether a run of plain traffic can be a reference: normal, with one level."""
        return self.unbounded(plain, measurement).is_normal and measurement.stable

    def unbounded(self, workload: Workload, measurement: Measurement) -> Verdict:
        """Judge a run without a bound on throughput."""
        return judge(workload, measurement, NOTHING_EXPECTED, self._thresholds)

    def sibling(self, workload: Workload) -> Workload:
        """Return the plain sibling of a workload."""
        return self.bounds.sibling(workload)

    def is_plain(self, workload: Workload) -> bool:
        """Whether a workload is its own plain sibling."""
        return self.sibling(workload) == workload

    def knows_bound(self, workload: Workload) -> bool:
        """Whether the plain sibling has been measured, or is known to be no reference."""
        return self.bounds.settled(workload)

    def tried_sibling(self, sibling: Workload, unfit: str) -> None:
        """Keep why the last run of a plain sibling is no reference, empty if it is one.

        A distrusted sibling keeps the reason. A later sound run does not make it a reference.
        """
        if not self.bounds.is_distrusted(sibling):
            self._unfit[sibling] = unfit

    @property
    def load(self) -> Workload | None:
        """The plain traffic whose latency the calibration knows, or None."""
        return next((link.workload for link in self.bounds.calibration.links), None)

    def tells_links(self, load: Workload, measurement: Measurement) -> bool:
        """Whether a run of plain traffic tells the latency of the links: driven, normal, with one level."""
        return measurement.health.driven and self.is_yardstick(load, measurement)

    def learn_links(self, measurement: Measurement) -> Verdict | None:
        """Judge a run of the plain traffic of the calibration by it. The verdict holds until the next such run."""
        limits = self._thresholds.link_ratio, self._thresholds.latency_seconds
        self._of_links = judge_links(self.bounds.calibration.links, measurement, *limits)
        return self._of_links

    def judged(self, workload: Workload, measurement: Measurement, purpose: str) -> Verdict | None:
        """Judge a run by what is known. Return None if the verdict depends on a plain sibling that is not measured."""
        verdict = self._by_sibling(workload, measurement, purpose)
        return None if verdict is None else self._by_links(workload, measurement, verdict)

    def _by_links(self, workload: Workload, measurement: Measurement, verdict: Verdict) -> Verdict:
        """Return the verdict on a run that is not later than its plain sibling. On a slow link both are late."""
        if not verdict.is_normal or self._thresholds.loss_of is Loss.OF_VICTIM:
            return verdict
        if workload == self.load:
            of_links = self.learn_links(measurement)
            return verdict if of_links is None else of_links
        if self._of_links is None or not self._may_be_late(workload, measurement):
            return verdict
        return late_as_well(self._of_links)

    def _by_sibling(self, workload: Workload, measurement: Measurement, purpose: str) -> Verdict | None:
        verdict = judge(workload, measurement, self.bounds.tightest(workload), self._thresholds)
        if self.bounds.known(workload):
            return verdict
        if verdict.is_normal and not self._may_be_late(workload, measurement):
            return verdict
        settled, unbounded = self.bounds.settled(workload), self.unbounded(workload, measurement)
        if verdict.is_normal and settled:
            return verdict
        if not unbounded.is_normal:  # another symptom decides, and nothing is known to be missing
            return unbounded if settled else verdict
        bracketed = self._bracketed(workload, measurement) if purpose != "confirm" else None
        if bracketed is not None:
            return bracketed
        return self._boundless(workload) if settled else None

    def settled(self, workload: Workload, measurement: Measurement) -> Verdict:
        """Judge a run whose plain sibling is measured, or could not be."""
        if self.bounds.known(workload):
            verdict = judge(workload, measurement, self.bounds.tightest(workload), self._thresholds)
            return self._by_links(workload, measurement, verdict)
        bracketed = self._bracketed(workload, measurement)
        return self._boundless(workload) if bracketed is None else bracketed

    def is_free_of(self, symptom: Symptom, workload: Workload, measurement: Measurement) -> bool:
        """Whether a run shows neither this symptom nor another one, with its throughput still unjudged."""
        return (
            symptom.is_looked_for_before(Symptom.LOW_THROUGHPUT)
            and not symptom.is_related(Symptom.LOW_THROUGHPUT)
            and self.judged(workload, measurement, "extract") is None
        )

    def _boundless(self, workload: Workload) -> Verdict:
        sibling = self.bounds.sibling(workload)
        subject = "this plain traffic, which is its own yardstick," if self.is_plain(workload) else "the plain sibling"
        why = self._unfit[sibling] or "is slow: plain traffic of another transport is faster"
        return inconclusive(f"no bound is known: {subject} {why}")

    def without_imitation(self, imitating: Workload) -> Verdict:
        """Return the verdict on a workload whose control verbs could not be imitated."""
        why = self._unfit[self.bounds.sibling(imitating)]
        return inconclusive(f"no bound is known: plain traffic with imitated control verbs {why}")

    def tried(self, sibling: Workload) -> bool:
        """Whether a plain sibling has run, as a reference or not."""
        return sibling in self._unfit

    def _may_be_late(self, workload: Workload, measurement: Measurement) -> bool:
        return can_be_late(workload, measurement, self._thresholds)

    def _bracketed(self, workload: Workload, measurement: Measurement) -> Verdict | None:
        """Judge a probe by siblings with fewer or more bytes in flight, if their bounds decide. This saves a run.

        If only its latency is in question, siblings with more or less load and longer or shorter messages decide.
        """
        if self._thresholds.loss_of is Loss.OF_VICTIM:
            return None  # brackets bound the workload's own throughput
        strictest, mildest = self.bounds.bracket(workload)[::-1]
        by_ceiling = judge(workload, measurement, self.bounds.ceiling(workload), self._thresholds)
        if by_ceiling.is_normal and self._may_be_late(workload, measurement):
            strictest, mildest = self.bounds.latency_bracket(workload)
        if mildest is not None:
            verdict = judge(workload, measurement, mildest, self._thresholds)
            if verdict.is_anomalous:
                return verdict
        if strictest is not None:
            verdict = judge(workload, measurement, strictest, self._thresholds)
            if verdict.is_normal:
                return verdict
        return None

    def with_signature(self, verdict: Verdict, measurement: Measurement) -> Verdict:
        """Return an anomalous verdict with its signature, relative to the healthy runs so far."""
        if not verdict.is_anomalous:
            return verdict
        return dataclasses.replace(verdict, signature=self.signature(measurement))
