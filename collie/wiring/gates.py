"""Gates: a baseline, what is under test, and the loop that compares the two."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from collie.campaign.budget import Budget
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.engine import Engine
from collie.campaign.events import Both, Event
from collie.campaign.gate import Gate, GateCase, GateParts, GateSummary, Kind, Record
from collie.campaign.measure import Measurer
from collie.campaign.run import strategy_generator
from collie.campaign.safety import Guard, SafetyRecord, record_of
from collie.content.anomalies import load_references
from collie.detect.bounds import Bounds, Calibration
from collie.detect.symptom import Symptom
from collie.errors import StoreError, UsageError
from collie.inventory.fingerprint import Fingerprint, HostDifference, compare
from collie.inventory.under_test import EVERYTHING, beyond
from collie.ports import CampaignHeader, CampaignStore, ProgressSink, Testbed
from collie.search.anomaly import Anomaly, KnownAnomalies
from collie.search.resolution import as_wide_as_it_may_be
from collie.search.strategy import build
from collie.store import fingerprints
from collie.store.memory import MemoryStore
from collie.store.sqlite import SqliteStore
from collie.wiring.campaigns import read_campaign
from collie.wiring.parts import Parts, parts_of, utc_now
from collie.wiring.pulse import Pulse
from collie.wiring.testbeds import kept_calibration, look_around, open_testbed
from collie.workloads.feature import Mfs


class _Unwatched:
    """A `ProgressSink` for the baseline's runs: people watch the candidate's."""

    def on_event(self, event: Event) -> None:
        """Show nothing."""


_OF_A_SEARCH = re.compile(r"a\d+")


@dataclass(frozen=True)
class Baseline:
    """A campaign that a gate compares with.

    Attributes:
        path: as `collie reproduce` takes it.
        choice: that it was begun with.
        anomalies: as it found them.
        record: what it measured.
        calibration: that it was judged by.
        fingerprints: of its hosts.
    """

    path: Path
    choice: SearchChoice
    anomalies: tuple[Anomaly, ...]
    record: Record
    calibration: Calibration
    fingerprints: Mapping[str, Fingerprint]


def read_baseline(name: str) -> Baseline:
    """Read a campaign as a baseline.

    Args:
        name: its directory, or the file `campaign.sqlite` in it.

    Raises:
        StoreError: there is no such campaign, or it kept no fingerprints.
    """
    path = Path(name)
    directory = path.parent if path.is_file() else path
    with read_campaign(directory) as store:
        kept = fingerprints.load(store.directory.fingerprints)
        if not kept:
            raise StoreError(
                f"{directory} kept no fingerprints, so nobody can say whether it may be compared with; begin a new one"
            )
        return Baseline(
            directory,
            SearchChoice.from_settings(store.header.settings),
            store.anomalies(),
            Record(store.runs()),
            store.calibration(),
            kept,
        )


@dataclass(frozen=True)
class GateChoice:
    """What a user says about a gate.

    Attributes:
        search: of the candidate: its testbed, and space and recipe of the baseline.
        baseline_hosts: inventory on which the baseline can be measured now; None without one.
        under_test: in what the two may differ.
        false_alarm: chance of any false alarm.
    """

    search: SearchChoice
    baseline_hosts: str | None = None
    under_test: tuple[str, ...] = ("firmware",)
    false_alarm: float = 0.01


@dataclass
class OpenGate:
    """A gate that is ready to run.

    Attributes:
        choice: what the user said.
        baseline: what it compares with.
        candidate: the testbed under test.
        budget: of both sides together.
        safety: what was done to the network, once `release` was called; None on a simulation without limits.
    """

    choice: GateChoice
    baseline: Baseline
    candidate: Testbed
    budget: Budget
    _gate: Gate
    _lanes: Sequence[tuple[Testbed, Guard]]
    safety: tuple[SafetyRecord, ...] = ()

    def run(self) -> GateSummary:
        """Compare, search, compare."""
        return self._gate.run()

    def release(self) -> None:
        """Leave nothing behind on any host."""
        found = (record_of(guard, testbed.close()) for testbed, guard in self._lanes)
        self.safety = tuple(record for record in found if record is not None)


@contextmanager
def gate(choice: GateChoice, baseline: Baseline, directory: Path | None, sink: ProgressSink) -> Iterator[OpenGate]:
    """Open a gate, and close its testbeds and its record.

    Args:
        choice: what the user says.
        baseline: what to compare with.
        directory: for the record of the candidate, a campaign of its own; None keeps none.
        sink: who watches.

    Raises:
        UsageError: the two sides differ in more than what is under test.
        CollieError: anything that the user chose is wrong.
    """
    search = choice.search.with_absolute_paths()
    parts_of(search)  # what is wrong with the choice is said before any host is asked
    with ExitStack() as stack:
        candidate = stack.enter_context(_opened(search.testbed, search.seed, shared_port=search.shared_port))
        other = _baseline_testbed(choice, baseline, search)
        testbed = None
        if other is not None:
            seed = Random(f"{search.seed}/baseline").getrandbits(31)  # noise of its own
            testbed = stack.enter_context(_opened(other, seed, shared_port=search.shared_port))
        _require_alike(choice, baseline, candidate, testbed)
        search = dataclasses.replace(search, capabilities=candidate.capabilities)
        parts = parts_of(search)
        store = stack.enter_context(_store(directory, search, parts, candidate))
        if isinstance(store, SqliteStore):
            sink = Both(stack.enter_context(Pulse(store.directory, store.header)).follower, sink)
        yield _ready(choice, baseline, parts, search, candidate, testbed, store, sink)


def _ready(
    choice: GateChoice,
    baseline: Baseline,
    parts: Parts,
    search: SearchChoice,
    candidate: Testbed,
    other: Testbed | None,
    store: CampaignStore,
    sink: ProgressSink,
) -> OpenGate:
    lanes = [(testbed, Guard(parts.limits)) for testbed in (candidate, other) if testbed is not None]

    def measurer(testbed: Testbed, kept: CampaignStore, guard: Guard, watching: ProgressSink) -> Measurer:
        ceilings = kept_calibration(search.testbed, testbed, parts.space) or baseline.calibration
        bounds = Bounds(testbed.specification, ceilings, parts.space)
        kept.set_calibration(ceilings)
        return Measurer(testbed, kept, bounds, parts.recipe.thresholds, parts.budget, watching, guard)

    measured = measurer(candidate, store, lanes[0][1], sink)

    def engine(known: Sequence[Mfs]) -> Engine:
        strategy = build(parts.recipe, parts.space, candidate.info.catalog, strategy_generator(search.seed))
        wide = KnownAnomalies([as_wide_as_it_may_be(mfs, parts.space) for mfs in known])
        return Engine(measured, store, strategy, parts.space, parts.recipe, sink, wide, candidate.info.catalog)

    where = str(store.directory.path) if isinstance(store, SqliteStore) else ""
    gate_parts = GateParts(
        candidate=measured,
        baseline=None if other is None else measurer(other, MemoryStore(store.header), lanes[1][1], _Unwatched()),
        record=baseline.record,
        store=store,
        cases=cases_of(baseline),
        space=parts.space,
        recipe=parts.recipe,
        budget=parts.budget,
        false_alarm=choice.false_alarm,
        engine=engine,
        name_found=lambda identifier: f"{where}/{identifier}" if where else identifier,
    )
    return OpenGate(choice, baseline, candidate, parts.budget, Gate(gate_parts), lanes)


def cases_of(baseline: Baseline, collection: str = "nsdi22") -> tuple[GateCase, ...]:
    """Return what a gate replays: the known anomalies, then the baseline's own."""
    known = [
        GateCase(
            name=reference.id,
            kind=Kind.KNOWN,
            title=reference.title,
            workload=reference.trigger,
            mfs=reference.conditions,
            anomaly=reference.id,
            symptom=Symptom(reference.symptom),
        )
        for reference in load_references(collection)
    ]
    published = {case.name for case in known}
    own = [anomaly for anomaly in baseline.anomalies if anomaly.same_as is None and anomaly.id not in published]
    replayed = {anomaly.id for anomaly in own if not _OF_A_SEARCH.fullmatch(anomaly.id)}
    return (*known, *(_case_of(anomaly, baseline, replayed) for anomaly in own))


def _case_of(anomaly: Anomaly, baseline: Baseline, replayed: Collection[str]) -> GateCase:
    name = anomaly.id
    # The baseline may be a gate itself, whose own baseline had the same name.
    while _OF_A_SEARCH.fullmatch(name) or (name != anomaly.id and name in replayed):
        name = f"{baseline.path.resolve().name}-{name}"
    return GateCase(
        name=name,
        kind=Kind.BASELINE,
        title=anomaly.sentence,
        workload=anomaly.workload,
        mfs=anomaly.mfs,
        anomaly=f"{baseline.path}/{anomaly.id}",
        symptom=anomaly.symptom,
        complete=anomaly.complete,
    )


def _baseline_testbed(choice: GateChoice, baseline: Baseline, search: SearchChoice) -> TestbedChoice | None:
    """Return where the baseline can be measured now; a simulated one always can."""
    before = baseline.choice.testbed
    if before.is_simulated != search.testbed.is_simulated:
        kinds = ("a simulated subsystem", "real hosts")
        raise UsageError(
            f"the baseline was measured on {kinds[not before.is_simulated]} and the candidate is "
            f"{kinds[not search.testbed.is_simulated]}; choose the candidate by --hosts or --subsystem"
        )
    if before.is_simulated:
        if choice.baseline_hosts:
            raise UsageError("--baseline-hosts is for real hosts; a simulated baseline is measured anew by itself")
        return before
    if choice.baseline_hosts is None:
        return None
    return dataclasses.replace(search.testbed, hosts=choice.baseline_hosts)


@contextmanager
def _opened(choice: TestbedChoice, seed: int, *, shared_port: bool) -> Iterator[Testbed]:
    testbed = open_testbed(choice, seed)
    try:
        look_around(testbed, shared_port=shared_port)
        yield testbed
    finally:
        testbed.close()


@contextmanager
def _store(directory: Path | None, search: SearchChoice, parts: Parts, testbed: Testbed) -> Iterator[CampaignStore]:
    header = CampaignHeader(
        campaign=directory.name if directory else "gate",
        testbed={"kind": testbed.info.kind, "name": testbed.info.name, **testbed.info.description},
        space=parts.space.name,
        recipe=parts.recipe.name,
        settings=search.to_settings(),
        seed=search.seed,
        started=utc_now(),
    )
    if directory is None:
        yield MemoryStore(header)
        return
    with SqliteStore.create(directory, header) as store:
        fingerprints.save(store.directory.fingerprints, testbed.info.fingerprints, utc_now())
        yield store


def _require_alike(choice: GateChoice, baseline: Baseline, candidate: Testbed, testbed: Testbed | None) -> None:
    """Refuse to compare hosts that differ in more than what is under test.

    A simulated subsystem is told by its settings and by a digest of all its quantities, which settings change: it is
    excused where the candidate with the settings of the baseline is the baseline.

    Raises:
        UsageError: they do; or the baseline is not what it was.
    """
    words, before = choice.under_test, baseline.choice.testbed
    follows: tuple[str, ...] = ()
    if testbed is not None:
        said = f"the baseline is not what it was when {baseline.path} measured it"
        _refuse(said, compare(baseline.fingerprints, testbed.info.fingerprints), words if EVERYTHING in words else ())
    if before.is_simulated:
        set_back = dataclasses.replace(choice.search.testbed, settings=before.settings, noise=before.noise)
        found = compare(baseline.fingerprints, _fingerprints_of(set_back))
        follows = () if any(host.changes_results for host in found) else ("subsystem.hardware",)
    _refuse(
        "baseline and candidate differ in more than what is under test",
        compare(baseline.fingerprints, candidate.info.fingerprints),
        words,
        follows,
    )


def _refuse(what: str, found: Iterable[HostDifference], under_test: Sequence[str], follows: Sequence[str] = ()) -> None:
    """Refuse differences beyond what is under test, and beyond fields that only follow from others."""
    unlike = [(host, each) for host in found for each in beyond(host.differences, (*under_test, *follows))]
    if unlike:
        fields = ",".join(dict.fromkeys(each.field for _, each in unlike))
        told = "\n  ".join(f"{host.b}: {each}" for host, each in unlike)
        raise UsageError(
            f"{what} (then and now):\n  {told}\nMake them alike, or say that this is under test as well: "
            f"--under-test {','.join((*dict.fromkeys(under_test), fields))}"
        )


def _fingerprints_of(choice: TestbedChoice) -> Mapping[str, Fingerprint]:
    testbed = open_testbed(choice, 0)
    try:
        return testbed.info.fingerprints
    finally:
        testbed.close()
