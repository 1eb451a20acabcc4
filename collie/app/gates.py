"""Opens and compares the two sides of a gate."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from collie.app.adapters import Adapters
from collie.app.baselines import Baseline, cases_of, require_alike, testbed_of, with_moved_subsystem
from collie.app.campaigns import new_header, require_same_hardware, require_same_testbed
from collie.app.inputs import SearchInputs, limits_of, search_inputs
from collie.app.pulse import Pulse
from collie.app.status import BASELINE_FOLDER, lost_runs, lost_words
from collie.app.testbeds import kept_calibration, open_testbed, require_idle_ports
from collie.campaign.budget import Budget
from collie.campaign.choice import GATE, GateChoice, TestbedChoice
from collie.campaign.events import Both, Silence
from collie.campaign.gate.loop import Gate
from collie.campaign.gate.summary import GateSummary
from collie.campaign.loop import SearchLoop
from collie.campaign.measure import Measurer
from collie.campaign.progress import Answer
from collie.campaign.run import strategy_generator
from collie.campaign.safety import Guard, SafetyRecord, record_of
from collie.detect.bounds import Bounds
from collie.errors import StoreError
from collie.inventory.safety import SafetyLimits
from collie.ports import CampaignHeader, CampaignStore, ProgressSink, Testbed
from collie.search.anomaly import KnownAnomalies
from collie.search.strategies import build
from collie.workloads.feature import Mfs
from collie.workloads.space import widen_to_untested

logger = logging.getLogger(__name__)
_SIDES = ("candidate", "baseline")


def recorded_gate(adapters: Adapters, directory: Path) -> GateChoice:
    """Return the choice of a gate on record."""
    with adapters.records.read(directory) as store:
        if GATE not in store.header.settings:
            raise StoreError(
                f"{directory} is no gate, or one of a Collie that could not resume it; a search goes on with "
                f"collie search --resume {directory}"
            )
        return GateChoice.from_settings(store.header.settings)


@dataclass(frozen=True)
class _Side:
    """One side of a gate."""

    testbed: Testbed
    store: CampaignStore
    guard: Guard


@dataclass
class OpenGate:
    """A gate that is ready to run, with the budget of both sides together.

    After `release`, `safety` has the record of each side by name.
    """

    candidate: Testbed
    budget: Budget
    _gate: Gate
    _sides: Sequence[_Side]
    _pulse: Pulse | None
    safety: Mapping[str, SafetyRecord] = field(default_factory=dict)

    def run(self) -> GateSummary:
        """Compare the cases, search, then compare the finds."""
        summary = self._gate.run()
        if self._pulse is not None:
            self._pulse.ended_by = summary.search.ended_by if summary.search else "budget"
            self._pulse.answer = Answer(summary.answer(), summary.exit_code())
        return summary

    def release(self) -> None:
        """Close both testbeds."""
        found = {
            name: record_of(side.guard, side.testbed.close()) for name, side in zip(_SIDES, self._sides, strict=False)
        }
        self.safety = {side: record for side, record in found.items() if record is not None}


@contextmanager
def gate(
    adapters: Adapters,
    choice: GateChoice,
    baseline: Baseline,
    directory: Path | None,
    sink: ProgressSink,
    *,
    resumed: bool = False,
    accept_changes: bool = False,
) -> Iterator[OpenGate]:
    """Open a gate. Close its testbeds and record at the end. `directory` keeps the candidate's record as a campaign."""
    choice = choice.with_absolute_paths()
    search = choice.search
    # A wrong choice is refused before any host is contacted.
    search_inputs(adapters, search)
    baseline = with_moved_subsystem(adapters, baseline, search.testbed)
    baseline_choice = testbed_of(baseline, search.testbed, choice.baseline_hosts)
    baseline_limits = (
        limits_of(adapters, dataclasses.replace(search, testbed=baseline_choice)) if baseline_choice else None
    )
    with ExitStack() as stack:

        def opened(chosen: TestbedChoice, seed: int) -> Testbed:
            testbed = stack.enter_context(closing(open_testbed(adapters, chosen, seed)))
            require_idle_ports(testbed, shared_port=search.shared_port)
            return testbed

        candidate = opened(search.testbed, search.seed)
        noise = Random(f"{search.seed}/baseline").getrandbits(31)
        baseline_testbed = opened(baseline_choice, noise) if baseline_choice else None
        require_alike(adapters, baseline, baseline_testbed, search.testbed, candidate, choice.under_test)
        if not resumed:
            search = dataclasses.replace(search, capabilities=candidate.capabilities)
        choice = dataclasses.replace(choice, search=search)
        inputs = search_inputs(adapters, search)

        def side(
            testbed: Testbed, limits: SafetyLimits | None, settings: Mapping[str, Any], folder: Path | None
        ) -> _Side:
            header = new_header(folder.name if folder else "gate", testbed, inputs, settings, search.seed)
            store = stack.enter_context(_store(adapters, folder, header, testbed, resumed, accept_changes))
            return _Side(testbed, store, Guard(limits))

        sides = [side(candidate, inputs.limits, choice.to_settings(), directory)]
        if baseline_testbed is not None and baseline_choice is not None:
            settings = dataclasses.replace(search, testbed=baseline_choice).to_settings()
            sides.append(
                side(baseline_testbed, baseline_limits, settings, directory / BASELINE_FOLDER if directory else None)
            )
        pulse = None
        if directory is not None:
            pulse = stack.enter_context(Pulse(adapters, directory, sides[0].store.header))
            sink = Both(pulse.follower, sink)
        yield _ready(adapters, choice, baseline, inputs, sides, sink, directory, pulse)


def _ready(
    adapters: Adapters,
    choice: GateChoice,
    baseline: Baseline,
    inputs: SearchInputs,
    sides: Sequence[_Side],
    sink: ProgressSink,
    directory: Path | None,
    pulse: Pulse | None,
) -> OpenGate:
    search = choice.search
    candidate, *others = sides

    def measurer(side: _Side, watching: ProgressSink) -> Measurer:
        begun = next(iter(side.store.runs()), None) is not None  # existing runs were judged by the recorded ceilings
        if not begun:
            side.store.set_calibration(
                kept_calibration(adapters, search.testbed, side.testbed, inputs.space) or baseline.calibration
            )
        bounds = Bounds(side.testbed.specification, side.store.calibration(), inputs.space)
        return Measurer(side.testbed, side.store, bounds, inputs.recipe.thresholds, inputs.budget, watching, side.guard)

    measured = measurer(candidate, sink)

    def engine(known: Sequence[Mfs]) -> SearchLoop:
        strategy = build(inputs.recipe, inputs.space, measured.catalog, strategy_generator(search.seed))
        wide = KnownAnomalies([widen_to_untested(mfs, inputs.space) for mfs in known])
        return SearchLoop(measured, candidate.store, strategy, inputs.space, inputs.recipe, sink, wide)

    where = f"{directory}/" if directory else ""
    gate = Gate(
        candidate=measured,
        baseline=measurer(others[0], Silence()) if others else None,
        record=baseline.record,
        store=candidate.store,
        cases=cases_of(adapters, baseline),
        space=inputs.space,
        recipe=inputs.recipe,
        budget=inputs.budget,
        false_alarm=choice.false_alarm,
        engine=engine,
        name_found=lambda identifier: f"{where}{identifier}",
    )
    return OpenGate(candidate.testbed, inputs.budget, gate, sides, pulse)


@contextmanager
def _store(
    adapters: Adapters,
    directory: Path | None,
    header: CampaignHeader,
    testbed: Testbed,
    resumed: bool,
    accept_changes: bool,
) -> Iterator[CampaignStore]:
    if directory is None:
        yield adapters.records.in_memory(header)
        return
    if not (resumed and adapters.records.exists(directory)):  # the process may have died before the second record
        with adapters.records.create(directory, header, None) as store:
            adapters.records.keep_fingerprints(directory, testbed.info.fingerprints)
            yield store
        return
    with adapters.records.open(directory) as store:
        if lost := lost_runs(adapters, store):
            logger.warning("%s: %s", directory, lost_words(lost))
        require_same_testbed(directory, store.header, testbed)
        require_same_hardware(adapters, directory, testbed.info.fingerprints, accept_changes=accept_changes)
        store.replace_settings(header.settings)
        yield store
