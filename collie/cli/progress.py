"""Progress on standard error: a live view on a terminal, else lines."""

from __future__ import annotations

import sys
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from collie.campaign.events import (
    AnomalyConfirmed,
    AnomalyExplained,
    AnomalyMerged,
    AnomalyReplaced,
    PairSetAside,
    RunFinished,
    SpacePruned,
    SuspicionDropped,
)
from collie.campaign.progress import CampaignProgress, Follower
from collie.clock import SystemClock
from collie.ports import HostLost
from collie.report.quantities import effort, percent, runs
from collie.report.terminal.progress import doing, found, hosts, pace, set_aside, time_left
from collie.search.anomaly import Anomaly
from collie.workloads.units import format_seconds

_PLAIN_PERIOD_SECONDS = 30.0
_FRAMES_PER_SECOND = 4
_BAR_WIDTH = 40


class ConsoleProgress:
    """A `ProgressSink` for people.

    A thread draws the live view, so that it does not slow a simulation of thousands of runs a second.
    """

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False, markup=False, soft_wrap=True)
        self._clock = SystemClock()
        self._follower = Follower(self._clock)
        self._last_line = self._clock.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                console=self._console,
                refresh_per_second=_FRAMES_PER_SECOND,
                transient=True,
                get_renderable=lambda: live_view(self._follower.standing()),
            )
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def on_event(self, event: Any) -> None:
        """Show one event."""
        self._follower.on_event(event)
        match event:
            case RunFinished():
                self._run(event)
            case AnomalyConfirmed(anomaly):
                title = Text.assemble((anomaly.id, "bold"), f" {anomaly.symptom.words}, run {anomaly.found_at_run}: ")
                self._console.print(title.append(anomaly.reason))
            case AnomalyExplained(anomaly):
                self._console.print(f"   {anomaly.id} {_needs(anomaly)}")
                if anomaly.hint:
                    self._console.print(f"   {anomaly.id} likely: {anomaly.hint}")
            case AnomalyMerged(anomaly):
                self._console.print(f"   {anomaly.id} is {anomaly.same_as} again", style="dim")
            case AnomalyReplaced(anomaly):
                self._console.print(
                    f"   controls of {anomaly.id} showed a second cause beside one that is explained; "
                    f"{anomaly.id} now names the workload that shows it alone: {anomaly.reason}"
                )
            case SpacePruned(drops):
                for drop in drops:
                    self._console.print(f"left out: {drop}", style="dim")
            case PairSetAside(pair, reason):
                self._console.print(f"{pair} is set aside: {reason}", style="bold red")
            case SuspicionDropped(run, verdict, shows):
                again = f"showed too rarely ({shows} of {runs(event.runs)})" if shows else "did not show again"
                self._console.print(f"   run {run} {again}: {verdict.reason}", style="dim")

    def _run(self, event: RunFinished) -> None:
        record = event.record
        if isinstance(record.result, HostLost):
            self._console.print(f"run {record.run}: {record.result.detail}", style="bold red")
        if self._live is None and self._clock.monotonic() - self._last_line >= _PLAIN_PERIOD_SECONDS:
            self._last_line = self._clock.monotonic()
            self._console.print(plain_line(self._follower.standing()))


def _needs(anomaly: Anomaly) -> str:
    if anomaly.complete:
        return f"needs {anomaly.mfs}"
    so_far = f": so far it needs {anomaly.mfs}" if anomaly.mfs.conditions else ""
    return f"is not explained to the end{so_far}"


def live_view(standing: CampaignProgress) -> Group:
    """Draw the progress."""
    bar = Table.grid(padding=(0, 1))
    used = f"{percent(standing.budget_ratio)} of {standing.budget}" if standing.budget else ""
    bar.add_row(ProgressBar(1.0, standing.budget_ratio, width=_BAR_WIDTH), used, time_left(standing))
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    for name, value in (
        ("runs", _runs(standing)),
        ("pace", pace(standing)),
        ("now", doing(standing)),
        ("found", found(standing)),
        ("hosts", hosts(standing)),
        ("aside", set_aside(standing)),
        ("failed", _failed(standing)),
    ):
        if value:
            rows.add_row(name, Text(value, overflow="ellipsis", no_wrap=True))
    return Group(bar, rows)


def plain_line(standing: CampaignProgress) -> str:
    """Return the progress on one line."""
    share = f", {percent(standing.budget_ratio)} of the budget" if standing.budget_ratio else ""
    parts = [f"{_runs(standing)}{share}", found(standing), pace(standing), time_left(standing)]
    return "; ".join(part for part in parts if part)


def _runs(standing: CampaignProgress) -> str:
    replayed = f" ({standing.replayed} from the record)" if standing.replayed else ""
    return f"{effort(standing.runs, standing.set_ups)}{replayed}, {format_seconds(standing.elapsed_seconds)}"


def _failed(standing: CampaignProgress) -> str:
    last = standing.last_failure
    return f"{runs(standing.failed_runs)}, last run {last.run}: {last.message}" if last else ""
