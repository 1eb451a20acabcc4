"""Begins and resumes campaigns."""

from __future__ import annotations

import dataclasses
import logging
import shlex
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collie.app.adapters import Adapters, CampaignRecord, ParallelPairs
from collie.app.inputs import SearchInputs, search_inputs, warn_of_unexplained, with_defaults
from collie.app.pulse import Pulse
from collie.app.status import lost_runs, lost_words
from collie.app.testbeds import (
    kept_calibration,
    known_elsewhere,
    lanes_of,
    open_testbed,
    require_idle_ports,
    require_possible_victim,
    require_subsystem,
)
from collie.campaign.budget import Budget
from collie.campaign.choice import GATE, SearchChoice, TestbedChoice
from collie.campaign.events import Both
from collie.campaign.run import Campaign, CampaignInterrupted
from collie.campaign.safety import Guard, SafetyRecord, record_of, replaced
from collie.campaign.summary import Summary
from collie.clock import utc_now
from collie.errors import HardwareChanged, StoreError, UsageError
from collie.inventory.fingerprint import Fingerprint, compare
from collie.inventory.safety import SafetyLimits
from collie.ports import CampaignHeader, ProgressSink, Testbed
from collie.workloads.units import format_count, format_seconds

logger = logging.getLogger(__name__)

_SAME_MOMENT_SECONDS = 1e-6
"""Tolerance for the ends of runs. They are sums of floats, whose last digits differ."""
NO_SCHEDULER = "none"
"""Replaces the address of a scheduler: this process drives all pairs."""


@dataclass(frozen=True)
class OpenCampaign:
    """A campaign that is ready to run. The caller closes it."""

    choice: SearchChoice
    campaign: Campaign
    testbed: Testbed
    store: CampaignRecord
    _adapters: Adapters
    lost_runs: int

    def release(self) -> SafetyRecord | None:
        """Return the safety record of the closed testbed, or None for a simulation without limits."""
        return record_of(self.campaign.guard, self.testbed.close())

    def run(self, sink: ProgressSink, metrics: Path | None = None) -> Summary:
        """Search until the budget is spent, and keep `status.json` and the Prometheus textfile `metrics` up to date.

        Raises:
            CampaignInterrupted: the operator ended it.
        """
        if self.lost_runs:
            logger.warning("%s", lost_words(self.lost_runs))
        with Pulse(self._adapters, self.store.directory.path, self.store.header, metrics) as pulse:
            known = self.store.tally()
            if self.campaign.budget.spent(known.elapsed_seconds, known.runs):
                pulse.had_ended_by = "budget"
            try:
                summary = self.campaign.run(Both(pulse.follower, sink))
            except CampaignInterrupted as interrupted:
                pulse.not_confirmed = interrupted.summary.not_confirmed
                raise
            pulse.ended_by, pulse.not_confirmed = summary.ended_by, summary.not_confirmed
            return summary

    def close(self) -> None:
        """Close the testbed and the record."""
        try:
            self.testbed.close()
        finally:
            self.store.close()


def begin(adapters: Adapters, choice: SearchChoice, directory: Path) -> OpenCampaign:
    """Begin a campaign in a new directory. A wrong choice is refused before it is written."""
    choice = with_defaults(adapters, choice.with_absolute_paths())
    search_inputs(adapters, choice)  # a wrong choice is refused before any host is contacted
    with ExitStack() as on_failure:
        testbed = open_testbed(adapters, choice.testbed, choice.seed, choice.pairs, scheduler=choice.scheduler)
        on_failure.callback(testbed.close)
        elsewhere = bool(known_elsewhere(adapters, choice.known, testbed))
        choice = dataclasses.replace(choice, capabilities=testbed.capabilities, known_elsewhere=elsewhere)
        inputs = search_inputs(adapters, choice)
        require_possible_victim(testbed, choice.testbed)
        require_idle_ports(testbed, shared_port=choice.shared_port)
        kept = kept_calibration(adapters, choice.testbed, testbed, inputs.space)
        choice = dataclasses.replace(choice, calibrated=kept is not None)
        header = new_header(directory.name, testbed, inputs, choice.to_settings(), choice.seed)
        store = on_failure.enter_context(adapters.records.create(directory, header, kept))
        warn_of_unexplained(adapters, choice.known)
        adapters.records.keep_fingerprints(directory, testbed.info.fingerprints)
        opened = _open(adapters, choice, inputs, testbed, store, 0)
        on_failure.pop_all()
        return opened


def new_header(
    name: str, testbed: Testbed, inputs: SearchInputs, settings: Mapping[str, Any], seed: int
) -> CampaignHeader:
    """Return the header of a campaign that begins now."""
    return CampaignHeader(
        campaign=name,
        testbed={"kind": testbed.info.kind, "name": testbed.info.name, **testbed.info.description},
        space=inputs.space.name,
        recipe=inputs.recipe.name,
        settings=settings,
        seed=seed,
        started=utc_now(),
    )


def chosen_scheduler(directory: Path, began_with: str | None, chosen: str | None) -> str | None:
    """Return the scheduler of a resumed campaign. The operator must confirm a recorded address."""
    if chosen is None and began_with is not None:
        raise UsageError(
            f"{directory} began with --scheduler {began_with}, and whoever answers there can run code here: "
            f"say --scheduler {shlex.quote(began_with)} if you know it, or --scheduler {NO_SCHEDULER} to do without"
        )
    return None if chosen == NO_SCHEDULER else chosen


def resumed_testbed(began: TestbedChoice, subsystem: str | None) -> TestbedChoice:
    """Return the testbed of a resumed campaign. The file of its subsystem can have moved to `subsystem`."""
    if subsystem is None:
        require_subsystem(began)
        return began
    if not began.is_simulated:
        raise UsageError("--subsystem names a simulated subsystem, and the campaign began on real hosts; leave it out")
    return dataclasses.replace(began, subsystem=subsystem).with_absolute_paths()


def resume(
    adapters: Adapters,
    directory: Path,
    budget: str | None,
    *,
    subsystem: str | None = None,
    scheduler: str | None = None,
    safety: SafetyLimits | None = None,
    shared_port: bool = False,
    accept_changes: bool = False,
) -> OpenCampaign:
    """Resume a campaign, with its recorded budget unless `budget` is given.

    A campaign that began with a scheduler requires `scheduler`, an address or `NO_SCHEDULER`: the recorded address
    comes from a file that others can write. `subsystem` is that of `resumed_testbed`. `safety` replaces the operator's
    earlier limits.
    """
    with ExitStack() as on_failure:
        store = on_failure.enter_context(adapters.records.open(directory))
        if GATE in store.header.settings:
            raise StoreError(f"{directory} is the record of a gate; go on with it by: collie gate --resume {directory}")
        began = SearchChoice.from_settings(store.header.settings)
        choice = dataclasses.replace(
            began,
            testbed=resumed_testbed(began.testbed, subsystem),
            budget=budget or began.budget,
            scheduler=chosen_scheduler(directory, began.scheduler, scheduler),
            safety=began.safety if safety is None else replaced(began.safety, safety),
            shared_port=shared_port,
        )
        inputs = search_inputs(adapters, choice)
        if budget is not None:
            _refuse_less_than_used(inputs.budget, store)
        lost = lost_runs(adapters, store)
        testbed = open_testbed(
            adapters, choice.testbed, choice.seed, choice.pairs, scheduler=choice.scheduler, absent_ok=True
        )
        on_failure.callback(testbed.close)
        require_same_testbed(directory, store.header, testbed)
        require_same_hardware(
            adapters,
            directory,
            testbed.info.fingerprints,
            accept_changes=accept_changes,
            absent=isinstance(testbed, ParallelPairs) and bool(testbed.absent),
        )
        require_idle_ports(testbed, shared_port=choice.shared_port)
        before = search_inputs(adapters, began).budget
        if not before.is_within(inputs.budget):
            logger.warning("the budget of %s was %s and is now %s in all", directory, before, inputs.budget)
        store.replace_settings(choice.to_settings())
        opened = _open(adapters, choice, inputs, testbed, store, lost)
        on_failure.pop_all()
        return opened


def require_same_testbed(directory: Path, header: CampaignHeader, testbed: Testbed) -> None:
    """Refuse a testbed on which a campaign was not begun. If the testbed has several pairs, the first may be absent."""
    info = testbed.info
    named = "pairs" if "pairs" in info.description else "name"
    now = {"kind": info.kind, "name": info.name, **info.description}
    if any(header.testbed.get(key) != now[key] for key in ("kind", named)):
        raise StoreError(f"{directory} was begun on {header.testbed['name']}, not on {info.name}")


def require_same_hardware(
    adapters: Adapters, directory: Path, now: Mapping[str, Fingerprint], *, accept_changes: bool, absent: bool = False
) -> None:
    """Refuse hosts that have changed since a campaign began. Record an accepted change beside the first fingerprints.

    With `absent`, hosts without an answer are left out.

    Raises:
        HardwareChanged: a field that changes results differs or is unknown.
    """
    then = adapters.records.fingerprints(directory)
    if not then:  # an older Collie, which kept no fingerprints, began the campaign
        adapters.records.keep_fingerprints(directory, now)
        return
    if absent:
        then = {host: fingerprint for host, fingerprint in then.items() if host in now}
    changed = [found for found in compare(then, now) if found.changes_results]
    if changed and not accept_changes:
        changes = [f"{found.b}: {each}" for found in changed for each in found.differences if each.changes_results]
        raise HardwareChanged(str(directory), changes)
    if changed:
        adapters.records.keep_fingerprints(directory, now)


def _refuse_less_than_used(budget: Budget, store: CampaignRecord) -> None:
    """Refuse a budget under which some recorded runs would not have begun."""
    runs = sorted(store.runs(with_series=False), key=lambda record: record.run)
    if not runs:
        return
    last = runs.pop()
    # Other pairs can have ended runs after the last run began. Only the runs that ended before count.
    latest = last.finished_at_seconds - last.result.elapsed_seconds + _SAME_MOMENT_SECONDS
    began = max((run.finished_at_seconds for run in runs if run.finished_at_seconds <= latest), default=0.0)
    if budget.spent(began, last.run - 1):
        raise UsageError(
            f"budget {budget} is less than the campaign has used: {format_count(last.run, 'run')}, "
            f"{format_seconds(began)} before the last; give more, or leave --budget out"
        )


def _open(
    adapters: Adapters, choice: SearchChoice, inputs: SearchInputs, testbed: Testbed, store: CampaignRecord, lost: int
) -> OpenCampaign:
    campaign = Campaign(
        testbed=testbed,
        store=store,
        space=inputs.space,
        recipe=inputs.recipe,
        budget=inputs.budget,
        seed=choice.seed,
        known=inputs.known,
        foreseen=inputs.foreseen,
        dropped=inputs.dropped,
        # A simulated data sheet gives ceilings. Other devices without a calibration are calibrated first, once.
        calibration=store.calibration() if choice.testbed.is_simulated or choice.calibrated else None,
        guard=Guard(inputs.limits),
        lanes=lanes_of(testbed),
    )
    return OpenCampaign(choice, campaign, testbed, store, adapters, lost)
