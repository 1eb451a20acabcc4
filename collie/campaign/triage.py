"""What becomes of the observations of a campaign: which are sightings, what awaits explanation, what is explained.

A *sighting* most likely repeats an earlier observation. A confirmed anomaly waits until its explanation is due.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter

from collie.campaign.lanes import Lane
from collie.campaign.measure import Measurer
from collie.campaign.observations import ConfirmedAnomaly, Observation, Suspicion
from collie.detect.signature import Signature, likeness, same_cause
from collie.ports import CampaignStore
from collie.search.anomaly import Anomaly, KnownAnomalies, LikelySame
from collie.search.discovery import DiscoveryEstimate, Sighting, estimate_discovery
from collie.search.familiarity import chance_of_same_cause
from collie.search.second_cause import NO_FLOOR
from collie.workloads.feature import Mfs
from collie.workloads.space import Space, widen_to_untested
from collie.workloads.workload import Workload

_AUDITED = 10
_FAMILIAR = 0.5
"""Chance of the cause of an explained anomaly from which an observation is no novelty."""
_PATIENCE = 2.0
"""Fruitless time between explanations of familiar anomalies, in explanations. Most of them show no other cause."""
_SAME_SET = 0.6
"""Likeness of counters from which two anomalies whose sets hold each other's simplest workload are one."""


class Triage:
    """The observations of all pairs of one campaign.

    Attributes:
        found: anomalies by id, in the order found.
        suspicions: those that await confirmation or are being confirmed.
        waiting: anomalies that await explanation.
        quiet: number of set-ups of the search since the last suspicion.
        fruitless_seconds: time of the search since the last novel anomaly, or since a familiar one was explained.
    """

    def __init__(self, measurer: Measurer, store: CampaignStore, space: Space, known: KnownAnomalies) -> None:
        self.found: dict[str, Anomaly] = {}
        self.suspicions: list[Suspicion] = []
        self.waiting: list[ConfirmedAnomaly] = []
        self.quiet = 0
        self.fruitless_seconds = 0.0
        self._patience = 1.0
        self._familiar: list[Suspicion] = []
        self._being_explained: list[ConfirmedAnomaly] = []
        self._explained: list[ConfirmedAnomaly] = []
        self._sightings: list[Sighting] = []
        self._measurer = measurer
        self._judgement = measurer.judgement
        self._store = store
        self._space = space
        self._known = known
        self._on_record = {anomaly.id for anomaly in store.anomalies()}

    def keep(self, anomaly: Anomaly) -> None:
        """Record an anomaly."""
        self.found[anomaly.id] = anomaly
        # During a replay the record can hold a later state.
        if not (self._measurer.scheduler.replaying and anomaly.id in self._on_record):
            self._store.add_anomaly(anomaly)

    def observe(self, suspicion: Suspicion) -> bool:
        """Match an observation with confirmed anomalies and other suspicions, or add it as a new suspicion.

        Return whether it repeats a confirmed anomaly.
        """
        if self._is_unexplained(suspicion):
            return True
        alike = next((other for other in self.suspicions if self._is_sighting(other, suspicion)), None)
        if alike is not None:
            alike.repetitions.append(suspicion)
            return False
        if self._shows_everywhere(suspicion):
            return True
        if suspicion.inside is None and self._familiarity(suspicion) >= _FAMILIAR:
            self._familiar.append(suspicion)
            return True
        self.quiet = 0
        self.suspicions.append(suspicion)
        return False

    def recall(self) -> None:
        """Make the least familiar observation a suspicion after all."""
        if self._familiar:
            chosen = min(self._familiar, key=self._familiarity)
            self._familiar.remove(chosen)
            if not self._known.covers(chosen.workload) and not self._is_unexplained(chosen):
                self.suspicions.append(dataclasses.replace(chosen, proposed=False))

    def put_first(self, sick: Suspicion) -> bool:
        """Put sick plain traffic before the other suspicions, which repeat it if they are alike.

        Return whether it is a new suspicion.
        """
        suspected = any(each.workload == sick.workload for each in self.suspicions)
        covered = self._known.covers(sick.workload) or self._shows_everywhere(sick)
        if suspected or covered or self._is_unexplained(sick):
            return False
        free = (each for each in self.suspicions if not each.taken and each.foreseen is None)
        alike = [each for each in free if self._is_sighting(each, sick)]
        sick.repetitions += [observation for each in alike for observation in each.observations]
        self.suspicions = [sick, *(each for each in self.suspicions if each not in alike)]
        return True

    def _shows_everywhere(self, suspicion: Suspicion) -> bool:
        """Whether any workload shows this symptom, so that nothing is left to explain."""
        symptom = suspicion.verdict.symptom
        return any(a.complete and not a.mfs.conditions and a.symptom is symptom for a in self.found.values())

    def _is_unexplained(self, suspicion: Suspicion) -> bool:
        """Whether an observation repeats an anomaly that awaits explanation, which counts it as a sighting."""
        unexplained = (*self.waiting, *self._being_explained)
        confirmed = next((each for each in unexplained if self._is_sighting(each, suspicion)), None)
        if confirmed is not None:
            confirmed.seen.append(suspicion)
            self._sighted(confirmed.anomaly)
        return confirmed is not None

    def suspicion_for(self, lane: Lane, *, alone: bool) -> Suspicion | None:
        """Return a suspicion for an idle lane: another lane's, or its own refuted one. A lane `alone` takes any."""
        free = (suspicion for suspicion in self.suspicions if not suspicion.taken)
        return next((each for each in free if alone or (each.lane is lane) == each.refuted), None)

    def confirmed(self, suspicion: Suspicion, anomaly: Anomaly, *, explain: bool, is_next: bool = False) -> None:
        """Turn a suspicion into an anomaly. With `explain`, it awaits explanation, first if it `is_next`."""
        for _ in suspicion.observations:
            self._sighted(anomaly)
        self.keep(anomaly)
        if explain:
            confirmed = ConfirmedAnomaly(
                suspicion.workload,
                suspicion.verdict,
                suspicion.measurement,
                anomaly,
                list(suspicion.repetitions),
                floor=suspicion.floor,
                inside=suspicion.inside,
                foreseen=suspicion.foreseen,
                is_next=is_next,
            )
            place = sum(each.is_next for each in self.waiting) if is_next else len(self.waiting)
            self.waiting.insert(place, confirmed)
            if self._familiarity(confirmed) < _FAMILIAR:
                self.fruitless_seconds = 0.0

    def due(
        self, explain_after_sightings: int, is_needed: Callable[[int], bool], *, fruitless: float = 0.0
    ) -> ConfirmedAnomaly | None:
        """Return the anomaly to explain now: the least familiar one, if any has the required sightings. 0 is at once.

        `is_needed` decides whether this number of explanations needs the rest of the budget. Then one begins, too. One
        also begins after the search was `fruitless` for as long as an explanation takes, in units of that time. After a
        familiar anomaly the next one waits for `_PATIENCE`.
        """
        if self.waiting and (self.waiting[0].is_next or not explain_after_sightings):
            return self.waiting[0]
        if (foreseen := next((each for each in self.waiting if each.foreseen is not None), None)) is not None:
            return foreseen  # its explanation costs little, and later known anomalies may lie inside
        familiar = {waiting: self._familiarity(waiting) for waiting in self.waiting}
        novel = [waiting for waiting in self.waiting if waiting.floor != NO_FLOOR or familiar[waiting] < _FAMILIAR]
        if novel:
            often = max(len(waiting.seen) for waiting in novel) >= explain_after_sightings
            if not often and fruitless < 1.0 and not is_needed(len(novel)):
                return None
            chosen = min(novel, key=lambda waiting: (familiar[waiting], -len(waiting.seen)))
            if familiar[chosen] >= _FAMILIAR:
                self.fruitless_seconds = 0.0
            return chosen
        # Familiar anomalies most likely have a cause that is explained. A search that finds anything is worth more.
        if self.waiting and (fruitless >= self._patience or is_needed(1)):
            self.fruitless_seconds = 0.0
            self._patience = _PATIENCE
            return min(self.waiting, key=familiar.__getitem__)
        return None

    @contextmanager
    def explaining(self, confirmed: ConfirmedAnomaly) -> Iterator[None]:
        """Take up a waiting anomaly."""
        self.waiting.remove(confirmed)
        self._being_explained.append(confirmed)
        try:
            yield
        finally:
            self._being_explained.remove(confirmed)

    @contextmanager
    def comparing(self, confirmed: ConfirmedAnomaly) -> Iterator[None]:
        """Keep a waiting anomaly from other lanes while its controls run."""
        if confirmed not in self.waiting:
            yield
            return
        place = self.waiting.index(confirmed)
        with self.explaining(confirmed):
            try:
                yield
            finally:
                self.waiting.insert(place, confirmed)

    def explain_next(self, confirmed: ConfirmedAnomaly) -> None:
        """Put an anomaly at the front of the queue: its pair stopped explaining it, or its explanation is withdrawn."""
        confirmed.is_next = True
        self.waiting.insert(0, confirmed)

    def explained(self, confirmed: ConfirmedAnomaly) -> None:
        """Record an explanation. An incomplete one covers nothing. Sightings outside its set are suspicions again."""
        self.keep(confirmed.anomaly)
        if not confirmed.anomaly.complete:
            return
        self._known.add(self._widened(confirmed.anomaly))
        self._explained.append(confirmed)
        seen, confirmed.seen = confirmed.seen, []
        for sighting in seen:
            if isinstance(sighting, Suspicion) and not self._known.covers(sighting.workload):
                self.observe(dataclasses.replace(sighting, proposed=False, taken=False, repetitions=[]))

    def covered_by(self, explained: Anomaly) -> list[ConfirmedAnomaly]:
        """Return the waiting anomalies that an explanation covers."""
        return [
            waiting
            for waiting in self.waiting
            if explained.symptom.is_related(waiting.anomaly.symptom) and _covers(explained, waiting.anomaly)
        ]

    def explained_before(self, confirmed: ConfirmedAnomaly) -> list[ConfirmedAnomaly]:
        """Return the explained anomalies whose sets cover one that has been explained now.

        Its finding may lie outside, or another lane may have explained them meanwhile. The one whose set is around it
        has been compared.
        """
        anomaly = confirmed.anomaly
        return [
            other
            for other in self._explained
            if other is not confirmed
            and anomaly.symptom.is_related(other.anomaly.symptom)
            and _covers(other.anomaly, anomaly)
            and self._widened(other.anomaly) != confirmed.inside
        ]

    def milder_around(self, confirmed: ConfirmedAnomaly) -> list[Mfs]:
        """Return the sets that do not hide an anomaly: that around it, and those of causes below its floor."""
        around = [confirmed.inside] if confirmed.inside is not None else []
        milder = (other for other in self._explained if other.severity_alone < confirmed.floor.severity)
        return around + [self._widened(other.anomaly) for other in milder]

    def same_set(self, confirmed: ConfirmedAnomaly) -> ConfirmedAnomaly | None:
        """Return an earlier anomaly with practically the same set, so that both are one.

        The simplest workload of each lies in the other's set and raises the same counters. An anomaly that is worse
        than the simplest workload of the set around it is not that one.
        """

        def typical(of: ConfirmedAnomaly) -> Signature:
            return self._judgement.signature(self._judgement.measurement(of.anomaly.workload) or of.measurement)

        for other in self._explained:
            if confirmed.floor.severity > other.severity_alone and self._widened(other.anomaly) == confirmed.inside:
                continue
            one, two = confirmed.anomaly, other.anomaly
            mutual = _covers(two, one) and _covers(one, two) and bool(one.mfs.conditions and two.mfs.conditions)
            if other is not confirmed and mutual and one.symptom.is_related(two.symptom):
                first, second = typical(confirmed), typical(other)
                if not first.raised or not second.raised or likeness(first, second) >= _SAME_SET:
                    return other
        return None

    def merge(self, waiting: ConfirmedAnomaly, explained: Anomaly) -> Anomaly:
        """Join an anomaly with the explained one that is its cause, and return it."""
        if waiting in self.waiting:
            self.waiting.remove(waiting)
        waiting.anomaly = dataclasses.replace(waiting.anomaly, same_as=explained.id)
        self.keep(waiting.anomaly)
        return waiting.anomaly

    def to_audit(self, workload: Workload, most: int) -> ConfirmedAnomaly | None:
        """Return the anomaly whose explanation covers a workload, if an audit is due.

        The first `most` covered proposals of an explanation are audits, then one of `_AUDITED`. The latest explanation
        counts, because it can lie inside an earlier one.
        """
        covering = (confirmed for confirmed in reversed(self._explained) if confirmed.anomaly.mfs.covers(workload))
        confirmed = next(covering, None)
        if confirmed is None or not most:
            return None
        confirmed.covered += 1
        return confirmed if confirmed.audits < most or confirmed.covered % _AUDITED == 0 else None

    @property
    def with_set(self) -> list[ConfirmedAnomaly]:
        """The anomalies with an explanation that has conditions."""
        return [confirmed for confirmed in self._explained if confirmed.anomaly.mfs.conditions]

    def stands(self, confirmed: ConfirmedAnomaly) -> bool:
        """Whether an explanation still holds. Another lane can have contradicted it."""
        return confirmed in self._explained

    def contradicted(self, confirmed: ConfirmedAnomaly) -> None:
        """Withdraw an explanation. What is on record of the anomaly claims it no more."""
        self._known.remove(self._widened(confirmed.anomaly))
        self._explained.remove(confirmed)
        confirmed.anomaly = confirmed.anomaly.without_explanation()
        self.keep(confirmed.anomaly)

    def sight(self, workload: Workload) -> None:
        """Add a sighting for a skipped proposal."""
        covering = next((a for a in self.found.values() if a.complete and a.mfs.covers(workload)), None)
        if covering is not None:
            self._sighted(covering)

    @property
    def discovery_estimate(self) -> DiscoveryEstimate | None:
        """The chance of another find in the next hour."""
        kinds = {anomaly.id: anomaly.same_as or anomaly.id for anomaly in self.found.values()}
        return estimate_discovery(
            [anomaly.found_at_seconds for anomaly in self.found.values() if anomaly.same_as is None],
            [Sighting(sighting.seconds, kinds[sighting.kind]) for sighting in self._sightings],
            self._measurer.elapsed_seconds,
        )

    def _sighted(self, anomaly: Anomaly) -> None:
        self._sightings.append(Sighting(self._measurer.elapsed_seconds, anomaly.id))

    def note_likely_causes(self) -> None:
        """Note with each anomaly that waits which explained one most likely has its cause, and record all anomalies.

        A process with a smaller budget can have recorded another one, or one for an anomaly that waits no more.
        """
        for waiting in self.waiting:
            # One that was joined with it before its explanation was withdrawn has its own id.
            others = (each for each in self._likely_causes(waiting) if each.id != waiting.anomaly.id)
            likely = max(others, key=attrgetter("chance"), default=None)
            if likely is not None and likely.chance >= _FAMILIAR:
                waiting.anomaly = dataclasses.replace(waiting.anomaly, likely_same_as=likely)
                self.found[waiting.anomaly.id] = waiting.anomaly
        for anomaly in list(self.found.values()):
            self.keep(anomaly)

    def _familiarity(self, waiting: Observation) -> float:
        """Return how likely an explained anomaly has the same cause.

        What lies in a set that does not predict it, without being worse, is familiar.
        """
        if waiting.inside is not None and waiting.floor == NO_FLOOR:
            return 1.0
        return max((likely.chance for likely in self._likely_causes(waiting)), default=0.0)

    def _likely_causes(self, waiting: Observation) -> Iterator[LikelySame]:
        """Yield the explained anomalies with the symptom of an observation, each with the chance of the same cause."""
        signature = self._judgement.signature(waiting.measurement)
        for other in (*self._explained, *self._being_explained):
            if other.verdict.symptom is waiting.verdict.symptom:
                explained = self._judgement.signature(other.measurement)
                chance = chance_of_same_cause(waiting.workload, signature, other.anomaly.mfs, explained)
                yield LikelySame(other.anomaly.same_as or other.anomaly.id, chance)

    def _is_sighting(self, earlier: Observation, later: Observation) -> bool:
        """Whether an observation most likely repeats an earlier one.

        Signatures are computed anew, because levels improve during a campaign. Where neither has raised a counter, the
        transport and the operation decide.
        """
        if later.verdict.symptom is not earlier.verdict.symptom:
            return False
        if earlier.workload.qp_type is not later.workload.qp_type:
            return False  # one counter often serves several transports with separate limits
        elsewhere = earlier.workload.opcode is not later.workload.opcode
        first, second = (
            self._judgement.signature(earlier.measurement),
            self._judgement.signature(later.measurement),
        )
        if not first.raised and not second.raised:
            return not elsewhere
        return same_cause(first, second, elsewhere=elsewhere)

    def _widened(self, anomaly: Anomaly) -> Mfs:
        return widen_to_untested(anomaly.mfs, self._space)


def _covers(explained: Anomaly, other: Anomaly) -> bool:
    """Whether an explanation covers an anomaly. "Any workload" covers each one with its symptom."""
    return explained.mfs.covers(other.workload) or not explained.mfs.conditions
