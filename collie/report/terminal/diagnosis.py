"""A diagnosis as text."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rich.text import Text

from collie.advise.corners import Corner
from collie.app.diagnoses import Diagnosed, DiagnosedApplication
from collie.campaign.diagnose import Change, Diagnosis, changed_values
from collie.campaign.single_run import JudgedRun
from collie.detect.reading import reading_of
from collie.ports import Measured
from collie.report.quantities import rate, runs, show, times, together
from collie.report.terminal.summary import Line, differing, failure_lines, styled, traffic, verdict_lines, victim_lines
from collie.workloads.units import format_seconds
from collie.workloads.workload import Workload

_MOST_ROWS = 12


def render_diagnosis(diagnosed: Diagnosed) -> str:
    """Return what a workload shows, which changes help how much, and what else is known."""
    return styled(_lines(diagnosed))


def render_application(diagnosed: DiagnosedApplication) -> str:
    """Return how the corners of an application do, and the diagnoses of those that are slow."""
    return styled(_application_lines(diagnosed))


def _application_lines(diagnosed: DiagnosedApplication) -> Iterator[Line]:
    application = diagnosed.application
    yield Text(f"{application.id}: {application.title}", "bold")
    names = [_name(corner) for corner, _ in diagnosed.corners]
    width = max(map(len, names), default=0)
    for name, (_, run) in zip(names, diagnosed.corners, strict=True):
        yield f"    {name:{width}}  {_verdict(run)}"
    for corner, each in diagnosed.diagnoses:
        yield from ("", Text(_name(corner), "bold"), *_lines(each))
    if not diagnosed.diagnoses:
        yield "no corner of its traffic is slow; `collie search --space` looks between them"
    yield Text(f"in all {runs(diagnosed.runs)}, {format_seconds(diagnosed.elapsed_seconds)} of testbed time", "dim")


def _name(corner: Corner) -> str:
    return f"{corner.traffic}, {corner.why}"


def _verdict(run: JudgedRun) -> str:
    verdict = run.verdict
    if verdict is None:
        return "could not be measured"
    return f"{verdict.outcome}: {verdict.reason}" if verdict.is_inconclusive or verdict.is_anomalous else "normal"


def _lines(diagnosed: Diagnosed) -> Iterator[Line]:
    found = diagnosed.diagnosis
    yield Text(traffic(found.run, _accounted(found)), "bold")
    yield from verdict_lines(found.run.verdict)
    yield from failure_lines(found.run.result)
    if isinstance(found.run.result, Measured):
        yield from victim_lines(found.run.result.measurement)
    if found.is_anomalous:
        yield Text("the cheapest change takes the fewest steps from the values of this workload", "dim")
        yield ""
        yield from _changes(diagnosed)
        yield ""
        if diagnosed.telling:
            moved = ", ".join(f"{each.counter} ({each.component}, {times(each.factor)})" for each in diagnosed.telling)
            yield f"moved most against healthy traffic: {moved}"
        yield from _hints(diagnosed)
        for known in diagnosed.known:
            yield f"known as {known.id}: {known.sentence}{f'; remedy: {known.cure}' if known.cure else ''}"
        yield from _advice(found)
    yield Text(f"{runs(diagnosed.runs)}, {format_seconds(diagnosed.elapsed_seconds)} of testbed time", "dim")


def _hints(diagnosed: Diagnosed) -> Iterator[str]:
    recorded, now = diagnosed.recorded_hint, diagnosed.hint
    if recorded or now:
        yield f"likely: {recorded or now}"
    if recorded and now and now != recorded:
        yield f"in this run: {now}"


def _accounted(found: Diagnosis) -> set[str]:
    """Return the dimensions of which a diagnosis says what changing them does, or why it was not tried."""
    return {*(each.dimension for each in (*found.kept, *found.changes)), *found.untried, *found.unjudged}


def _changes(diagnosed: Diagnosed) -> Iterator[Line]:
    found = diagnosed.diagnosis
    start, now = found.run.workload, _delivered(found.run)
    for change in found.kept:
        yield f"{_told(start, change)} helps most, and something else is slow as well: {_outcome(change, now)}"
        start = change.run.workload
    cures = [each for each in found.changes if each.cures]
    helpful = [each for each in found.changes if not each.cures and found.helps(each)]
    rows = helpful[:_MOST_ROWS]
    width = max((len(_told(start, each)) for each in (*cures, *rows)), default=0)
    for some, what, style in ((cures, "it is normal", "green"), (rows, "it is better", "dim")):
        if some:
            yield Text(f"with {'these and ' if found.kept else ''}one change at a time, {what}", "bold")
        for each in some:
            yield Text(f"    {_told(start, each):{width}}  {_outcome(each, now)}", style)
    if (more := len(helpful) - len(rows)) > 0:
        yield Text(f"    and {more} more, see --format json", "dim")
    if not found.changes:
        yield "no change of one dimension could be measured"
    yield from _others(found, {each.dimension for each in (*found.kept, *cures, *helpful)})


def _others(found: Diagnosis, helping: Collection[str]) -> Iterator[Line]:
    """Yield what becomes of the dimensions without a row, each kind in one line."""
    useless = dict.fromkeys(each.dimension for each in found.changes if each.dimension not in helping)
    accounted = _accounted(found)
    untried = [name for name in found.untried if name not in {*helping, *useless}]
    for names, why in (
        (useless, "hardly helps, if at all"),
        (
            [name for name in untried if name not in found.untried_apart],
            "not tried, as it would likely cost more",
        ),
        ([name for name in untried if name in found.untried_apart], "not tried, as it needs another set-up"),
        (found.unjudged, "tried, and could not be judged"),
        ([name for name in differing(found.run) if name not in accounted], "no simpler value in the space"),
    ):
        if names:
            yield Text(f"{why}: {', '.join(names)}", "dim")


def _delivered(run: JudgedRun) -> float | None:
    if run.verdict is None or not isinstance(run.result, Measured):
        return None
    return reading_of(run.verdict, run.result.measurement).delivered_bps


def _told(before: Workload, change: Change) -> str:
    values = changed_values(before, change)
    return ", ".join(f"{name} {show(name, old)} -> {show(name, new)}" for name, (old, new) in values.items())


def _outcome(change: Change, before: float | None) -> str:
    verdict, delivered = change.run.verdict, _delivered(change.run)
    assert verdict is not None, "changes without a verdict are left out"
    total = rate(delivered) + (together(change.run.workload) if delivered is not None else "")
    if verdict.is_normal:
        slower = delivered is not None and before is not None and delivered < before
        return f"normal, {total}{' (less than it delivers now)' if slower else ''}"
    return f"{verdict.symptom.words if verdict.symptom else verdict.outcome}, {verdict.figure}, {total}"


def _advice(found: Diagnosis) -> Iterator[Line]:
    if found.advised is None:
        yield Text("no change made it normal twice", "bold yellow")
        return
    changes = (*found.kept, found.advised)
    starts = (found.run.workload, *(each.run.workload for each in found.kept))
    told = " and ".join(_told(before, change) for before, change in zip(starts, changes, strict=True))
    repeated = "normal on two set-ups" if found.repeated else "normal, as every larger step, the largest on two set-ups"
    which = "the surest change that was tried" if found.cheaper else "the cheapest change that was tried"
    yield Text(f"{which}: {told} ({repeated})", "bold green")
    if found.cheaper:
        yield f"cheaper, and not tried again: {_told(starts[-1], found.cheaper)}"
    if found.untried:
        yield Text("`--every-change` tries all", "dim")
