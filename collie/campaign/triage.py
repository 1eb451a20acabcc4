"""What a campaign has met: suspicions, anomalies whose explanation waits, explanations. It measures nothing.

A *suspicion* is a run that shows something, a *sighting* one that most likely shows what was met before. An anomaly is
confirmed first, and then waits until its explanation pays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from collie.campaign.lanes import Lane
from collie.campaign.measure import Measurer
from collie.detect.measurement import Measurement
from collie.detect.signature import same_cause
from collie.detect.symptom import Verdict
from collie.ports import CampaignStore
from collie.search.anomaly import Anomaly, KnownAnomalies
from collie.search.discovery import DiscoveryEstimate, Sighting, prospects
from collie.search.resolution import widen_to_untested
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload


@dataclass(eq=False)
class Observation:
    """A run that shows something.

    Attributes:
        workload: what ran.
        suspicion: its verdict.
        measurement: what it showed.
    """

    workload: Workload
    suspicion: Verdict
    measurement: Measurement


@dataclass(eq=False)
class Suspicion(Observation):
    """A suspicion that is to be confirmed.

    Attributes:
        run: that raised it.
        lane: that made the run.
        refuted: another lane has not seen it, so the one that has decides whether it is that lane's own.
        taken: a lane confirms it just now.
        alike: what else has shown the same meanwhile.
    """

    run: int
    lane: Lane
    refuted: bool = False
    taken: bool = False
    alike: list[Observation] = field(default_factory=list)

    @property
    def all_seen(self) -> tuple[Observation, ...]:
        """Itself, and what else has shown the same."""
        return (self, *self.alike)


@dataclass(eq=False)
class ConfirmedAnomaly(Observation):
    """A confirmed anomaly, and the run that raised the suspicion.

    Attributes:
        anomaly: as it stands.
        sightings: how often the search met it while its explanation was put off.
        audits: runs that its explanation covers and that were made to see whether it holds.
        covered_by: anomaly whose explanation, found while this one was being looked for, covers it.
        abandoned: its explanation was begun by a pair that takes no further part.
    """

    anomaly: Anomaly
    sightings: int = 0
    audits: int = 0
    covered_by: str | None = None
    abandoned: bool = False


class Triage:
    """Everything that the pairs of one campaign have met, and share.

    Args:
        measurer: knows what is ordinary, and the time.
        store: keeps anomalies.
        space: where explanations hold.
        known: minimal feature sets that need not be found again; explanations are added to them.

    Attributes:
        found: anomalies, in the order found.
        suspects: suspicions that are to be confirmed, or are being confirmed.
        waiting: anomalies whose explanation is put off.
    """

    def __init__(self, measurer: Measurer, store: CampaignStore, space: Space, known: KnownAnomalies) -> None:
        self.found: list[Anomaly] = []
        self.suspects: list[Suspicion] = []
        self.waiting: list[ConfirmedAnomaly] = []
        self._being_explained: list[ConfirmedAnomaly] = []
        self._explained: list[ConfirmedAnomaly] = []
        self._sightings: list[Sighting] = []
        self._measurer = measurer
        self._store = store
        self._space = space
        self._known = known
        self._on_record = {anomaly.id for anomaly in store.anomalies()}

    def keep(self, anomaly: Anomaly) -> None:
        """Put an anomaly on record as it stands now."""
        known = next((index for index, found in enumerate(self.found) if found.id == anomaly.id), None)
        if known is None:
            self.found.append(anomaly)
        else:
            self.found[known] = anomaly
        # What is being replayed is on record already, possibly in a later and better state.
        if not (self._measurer.replaying and anomaly.id in self._on_record):
            self._store.add_anomaly(anomaly)

    # --- Suspicions ---------------------------------------------------------------------------------------------------

    def suspect(self, suspect: Suspicion) -> bool:
        """Take a suspicion for an anomaly that was met before, for one like another suspicion, or for a new one.

        Returns:
            Whether it shows what is confirmed already; otherwise it waits to be confirmed.
        """
        confirmed = next(
            (
                confirmed
                for confirmed in (*self.waiting, *self._being_explained)
                if self._is_sighting(confirmed, suspect)
            ),
            None,
        )
        if confirmed is not None:
            confirmed.sightings += 1
            self._sighted(confirmed.anomaly)
            return True
        alike = next((other for other in self.suspects if self._is_sighting(other, suspect)), None)
        if alike is not None:
            alike.alike.append(suspect)
            return False
        if any(a.complete and not a.mfs.conditions and a.symptom is suspect.suspicion.symptom for a in self.found):
            return True  # everything shows this symptom, whatever runs: nothing is left to explain
        self.suspects.append(suspect)
        return False

    def suspect_for(self, lane: Lane, *, alone: bool) -> Suspicion | None:
        """Return a suspicion for a lane to look at: another lane's, or its own once that has been refuted.

        Args:
            lane: that has time.
            alone: no other lane is at work, so its own are its to confirm.
        """
        return next(
            (
                suspect
                for suspect in self.suspects
                if not suspect.taken and (alone or (suspect.lane is lane) == suspect.refuted)
            ),
            None,
        )

    def confirmed(self, suspect: Suspicion, anomaly: Anomaly, *, explain: bool) -> None:
        """Note that a suspicion is an anomaly; with `explain` its explanation waits from now on."""
        for _ in suspect.all_seen:
            self._sighted(anomaly)
        self.keep(anomaly)
        if explain:
            confirmed = ConfirmedAnomaly(
                suspect.workload, suspect.suspicion, suspect.measurement, anomaly, len(suspect.alike)
            )
            self.waiting.append(confirmed)

    # --- Explanations -------------------------------------------------------------------------------------------------

    def due(self, explain_after_sightings: int, is_needed: Callable[[int], bool]) -> ConfirmedAnomaly | None:
        """Return an anomaly whose explanation pays now.

        Args:
            explain_after_sightings: sightings from which on it does; 0 explains at once.
            is_needed: whether so many explanations need the rest of the budget.
        """
        if self.waiting and (self.waiting[0].abandoned or not explain_after_sightings):
            return self.waiting[0]
        fresh = [waiting for waiting in self.waiting if not self._is_kin(waiting)]
        oftenest = max(fresh, key=lambda waiting: waiting.sightings, default=None)
        if oftenest and oftenest.sightings >= explain_after_sightings:
            return oftenest
        waiting = fresh or self.waiting
        return waiting[0] if waiting and is_needed(len(waiting)) else None

    @contextmanager
    def explaining(self, confirmed: ConfirmedAnomaly) -> Iterator[None]:
        """Take an anomaly up: of those that wait, or one whose explanation was contradicted."""
        if confirmed in self.waiting:
            self.waiting.remove(confirmed)
        self._being_explained.append(confirmed)
        try:
            yield
        finally:
            self._being_explained.remove(confirmed)

    def abandon(self, confirmed: ConfirmedAnomaly) -> None:
        """Let an anomaly wait again, and first in the row, as the pair that was explaining it takes no further part."""
        confirmed.abandoned = True
        self.waiting.insert(0, confirmed)

    def explained(self, confirmed: ConfirmedAnomaly) -> None:
        """Note an explanation. One that lacks conditions would hide what it does not explain, and covers nothing."""
        if confirmed.anomaly.complete:
            self._known.add(self._widened(confirmed.anomaly))
            self._explained.append(confirmed)
        self.keep(confirmed.anomaly)

    def merge(self, explained: Anomaly) -> list[Anomaly]:
        """Mark what waits and is explained by now as the same; return it."""

        def covers(confirmed: ConfirmedAnomaly) -> bool:
            return explained.symptom.is_related(confirmed.anomaly.symptom) and explained.mfs.covers(
                confirmed.anomaly.found_as
            )

        merged = []
        for waiting in [confirmed for confirmed in self.waiting if covers(confirmed)]:
            self.waiting.remove(waiting)
            merged.append(dataclasses.replace(waiting.anomaly, same_as=explained.id))
            self.keep(merged[-1])
        for confirmed in self._being_explained:
            if covers(confirmed):
                confirmed.covered_by = explained.id
        return merged

    def to_audit(self, workload: Workload, most: int) -> ConfirmedAnomaly | None:
        """Return the explanation that covers a workload, if it has been put to the test fewer times than `most`."""
        covering = (confirmed for confirmed in self._explained if confirmed.anomaly.mfs.covers(workload))
        return next((confirmed for confirmed in covering if confirmed.audits < most), None)

    def stands(self, confirmed: ConfirmedAnomaly) -> bool:
        """Whether an explanation holds as far as is known: another lane may have found it wanting."""
        return confirmed in self._explained

    def contradicted(self, confirmed: ConfirmedAnomaly) -> None:
        """Let an explanation no longer cover anything."""
        self._known.remove(self._widened(confirmed.anomaly))
        self._explained.remove(confirmed)

    # --- Sightings ----------------------------------------------------------------------------------------------------

    def sight(self, workload: Workload) -> None:
        """Note a proposal that was not run, as an explanation covers it."""
        covering = next((a for a in self.found if a.complete and a.mfs.covers(workload)), None)
        if covering is not None:
            self._sighted(covering)

    @property
    def prospects(self) -> DiscoveryEstimate | None:
        """The chance of another find in the next hour; None when too little is known."""
        kinds = {anomaly.id: anomaly.same_as or anomaly.id for anomaly in self.found}
        return prospects(
            [anomaly.found_at_seconds for anomaly in self.found if anomaly.same_as is None],
            [Sighting(sighting.seconds, kinds[sighting.kind]) for sighting in self._sightings],
            self._measurer.elapsed_seconds,
        )

    def _sighted(self, anomaly: Anomaly) -> None:
        self._sightings.append(Sighting(self._measurer.elapsed_seconds, anomaly.id))

    def _is_kin(self, waiting: ConfirmedAnomaly) -> bool:
        """Whether something alike is explained already: the same cause, most likely, where its explanation ends."""
        return any(self._is_sighting(other, waiting) for other in (*self._explained, *self._being_explained))

    def _is_sighting(self, before: Observation, seen: Observation) -> bool:
        """Whether what was seen is most likely what was met before.

        Signatures are taken anew: what is ordinary is known the better the longer a campaign runs.
        """
        if seen.suspicion.symptom is not before.suspicion.symptom:
            return False
        if before.workload.qp_type is not seen.workload.qp_type:
            return False  # one counter often serves several transports, each with limits of its own
        elsewhere = before.workload.opcode is not seen.workload.opcode
        signature = self._measurer.signature
        return same_cause(signature(before.measurement), signature(seen.measurement), elsewhere=elsewhere)

    def _widened(self, anomaly: Anomaly) -> Mfs:
        return widen_to_untested(anomaly.mfs, self._space)
