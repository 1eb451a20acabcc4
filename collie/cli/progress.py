"""What a person sees while a campaign runs: a live line on a terminal, plain lines elsewhere. On standard error."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from collie.campaign.events import AnomalyConfirmed, AnomalyExplained, Event, RunFinished, SpacePruned, SuspicionDropped
from collie.ports import HostLost, SetupFailed
from collie.workloads.units import format_seconds

_PLAIN_PERIOD_SECONDS = 30.0


class ConsoleProgress:
    """A `ProgressSink` for people. Use as a context manager, so that the live line is always taken down."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._anomalies = 0
        self._last_line = time.monotonic()
        self._live: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._quiet:
            self._live = Progress(
                TextColumn("{task.fields[runs]} runs"),
                BarColumn(bar_width=30),
                TextColumn("{task.percentage:>3.0f} %  {task.fields[elapsed]}  {task.fields[found]} anomalies"),
                TextColumn("[dim]{task.fields[doing]}"),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._live.add_task("", total=1.0, runs=0, elapsed="0 s", found=0, doing="")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def on_event(self, event: Any) -> None:
        """Show one event."""
        if self._quiet:
            return
        match event:
            case RunFinished():
                self._run(event)
            case AnomalyConfirmed(anomaly):
                self._anomalies += 1
                self._console.print(
                    f"[bold]{anomaly.id}[/] {anomaly.symptom}, run {anomaly.found_at_run}: {anomaly.reason}"
                )
            case AnomalyExplained(anomaly):
                self._console.print(f"   {anomaly.id} needs {anomaly.mfs}", markup=False)
                if anomaly.hint:
                    self._console.print(f"   {anomaly.id} likely: {anomaly.hint}", markup=False)
            case SpacePruned(drops):
                for drop in drops:
                    self._console.print(f"left out: {drop}", style="dim", markup=False)
            case SuspicionDropped(run, verdict):
                self._console.print(f"   run {run} did not show again: {verdict.reason}", style="dim", markup=False)

    def _run(self, event: RunFinished) -> None:
        record = event.record
        doing = record.purpose
        if record.purpose == "search":
            doing = f"driving {event.driven}" if event.driven else "random"
        if isinstance(record.result, SetupFailed):
            doing = f"set-up failed: {record.result.cause}"
        if isinstance(record.result, HostLost):
            doing = f"host {record.result.host} was lost"
            self._console.print(f"run {record.run}: {record.result.detail}", style="bold red", markup=False)
        elapsed = format_seconds(record.finished_at_seconds)
        if self._live is not None and self._task is not None:
            self._live.update(
                self._task,
                completed=event.budget_share,
                runs=record.run,
                elapsed=elapsed,
                found=self._anomalies,
                doing=doing,
            )
        elif time.monotonic() - self._last_line >= _PLAIN_PERIOD_SECONDS:
            self._last_line = time.monotonic()
            share = f", {event.budget_share:.0%} of the budget" if event.budget_share else ""
            self._console.print(f"{record.run} runs, {elapsed}{share}, {self._anomalies} anomalies")


class Silence:
    """A `ProgressSink` that shows nothing."""

    def on_event(self, event: Event) -> None:
        """Show nothing."""
