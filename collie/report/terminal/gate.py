"""The result of a gate as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collie.campaign.gate.answer import AnsweredCase, GateAnswer
from collie.campaign.gate.cases import CaseOrigin
from collie.campaign.gate.summary import DETAILED, ORDER, QUIET, CaseResult, GateSummary
from collie.campaign.safety import SafetyRecord
from collie.detect.compare import Change, Comparison, Effect, Side, Spread
from collie.detect.reading import RunReading, Sign
from collie.inventory.fingerprint import HostDifference, show
from collie.report.json.objects import (
    SCHEMA_VERSION,
    Json,
    features,
    plain,
    render_differences,
    render_lost,
    render_safety,
)
from collie.report.quantities import percent, runs
from collie.workloads.units import format_count, format_number, format_seconds
from collie.workloads.workload import render

_MAX_LOST = 5
"""Most runs that cost a host in a note. JSON has all of them."""


@dataclass(frozen=True)
class GateContext:
    """The sides of a gate, and its command line.

    Attributes:
        testbed_options: options of the candidate's testbed, space and recipe.
        under_test: fields in which the sides can differ.
        campaign: directory of the record.
        started: time at which the gate began, RFC 3339, UTC.
        safety: safety record of each side.
    """

    baseline: str
    candidate: str
    testbed_options: Sequence[str]
    under_test: Sequence[str]
    differences: Sequence[HostDifference]
    campaign: str
    started: str
    exit_code: int
    inconclusive_fails: bool = True
    safety: Mapping[str, SafetyRecord] = field(default_factory=dict)

    def reproduce(self, result: CaseResult) -> str:
        """Return the command that reproduces a case on the candidate.

        An anomaly that shows another symptom there is reproduced as this gate recorded it.
        """
        case, shown = result.case, result.comparison.reproduced(Side.CANDIDATE)
        is_old = case.kind in (CaseOrigin.KNOWN, CaseOrigin.BASELINE)
        is_changed = is_old and shown is not None and shown.symptom is not case.symptom
        words = ["collie", "reproduce", f"{self.campaign}/{case.recorded_as}" if is_changed else case.anomaly]
        if result.case.kind is CaseOrigin.NEIGHBOUR:
            words.append("--controls")
        return shlex.join([*words, *self.testbed_options])


def headline(summary: GateSummary, context: GateContext) -> str:
    """Return the answer in one line."""
    return f"gate {summary.answer(inconclusive_fails=context.inconclusive_fails)}"


def under_test(context: GateContext) -> Iterator[str]:
    """Yield each field that differs and changes results, with the value of either side."""
    for host in context.differences:
        for each in host.differences:
            if each.changes_results:
                yield f"{each.field}: {show(each.a)} in the baseline, {show(each.b)} in the candidate"


def neighbours(summary: GateSummary) -> str:
    """Return the results of neighbours."""
    beside = [result.change for result in summary.results if result.case.kind is CaseOrigin.NEIGHBOUR]
    healthy, still, unable = map(beside.count, (Change.HEALTHY, Change.STILL, Change.UNSUPPORTED))
    both = f", {still} {'is' if still == 1 else 'are'} anomalous on the baseline, too" if still else ""
    cannot = f", {unable} cannot run here" if unable else ""
    compared = len(beside) - unable
    are = "is" if healthy == 1 else "are"
    answer = (
        f"{healthy} of {format_count(compared, 'neighbour')} {are} healthy" if compared else "no neighbour was compared"
    )
    return f"{answer}{both}{cannot}"


def unreached(summary: GateSummary) -> str:
    """Return why neighbours were not reached."""
    return "the budget was spent" if summary.search is None else "the neighbours' share of the budget was spent"


def searched(summary: GateSummary) -> str:
    """Return the result of the search."""
    more = (
        f"; --budget {summary.needed.as_option} would decide every anomaly and leave some to search"
        if summary.needed
        else ""
    )
    if summary.search is None:
        return f"nothing was searched: what was left of the budget could not have told whether a find is new{more}"
    finds = [result for result in summary.results if result.case.kind is CaseOrigin.FOUND]
    answers = [_counted(change, of) for change in ORDER if (of := [each for each in finds if each.change is change])]
    found = f"{len(finds)} beyond these: {', '.join(answers)}" if finds else "nothing beyond these"
    took = f"{runs(summary.search_runs)} ({format_seconds(summary.search_seconds)} of testbed time)"
    return f"the search of {took} found {found}{more}"


def _counted(change: Change, finds: Sequence[CaseResult]) -> str:
    word = "not new, as the baseline is no better" if change is Change.STILL else change.of_anomaly
    return f"{len(finds)} {word} ({', '.join(result.case.name for result in finds)})"


def effort(summary: GateSummary) -> str:
    """Return the cost and the confidence."""
    candidate, baseline = summary.runs
    beside = (
        f" and {baseline} of the baseline beside it" if summary.paired else "; the baseline answered from its record"
    )
    return (
        f"{runs(candidate)} of the candidate{beside}, {format_seconds(summary.elapsed_seconds)} of testbed time; "
        f"chance of any false alarm: at most {percent(summary.false_alarm)}"
    )


def notes(summary: GateSummary) -> tuple[str, ...]:
    """Return what the cases do not say: the neighbours, the search and the cost."""
    left = len(summary.untested)
    missed = f"{format_count(left, 'neighbour')} {'was' if left == 1 else 'were'} not reached: {unreached(summary)}"
    lost = [lost_hosts(summary)] if summary.lost else []
    return (neighbours(summary), *([missed] if left else []), *lost, searched(summary), effort(summary))


def lost_hosts(summary: GateSummary) -> str:
    """Return the runs that cost a host."""
    first = [f"run {each.run} host {each.host} of the {side} ({each.detail})" for side, each in summary.lost]
    more = f" and {len(first) - _MAX_LOST} more" if len(first) > _MAX_LOST else ""
    return f"{format_count(len(first), 'workload')} cost a host and got no answer: {'; '.join(first[:_MAX_LOST])}{more}"


def describe_effect(effect: Effect | None) -> str:
    """Return the size of a change, empty if unknown."""
    if effect is None:
        return ""
    parts = []
    if effect.throughput_ratio is not None:
        parts.append(f"throughput x{_spread(effect.throughput_ratio, '.2f')}")
    for name, difference in (("pause", effect.pause_difference), ("severity", effect.severity)):
        if difference is not None:
            points = Spread(*(100 * value for value in difference))
            parts.append(f"{name} {_spread(points, '+.1f')} points")
    return ", ".join(parts)


def _spread(found: Spread, form: str) -> str:
    middle, low, high = (format_number(value, form) for value in (found.middle, found.low, found.high))
    return middle if found.low == found.high else f"{middle} ({low} to {high})"


def render_gate_text(summary: GateSummary, context: GateContext) -> str:
    """Return the final text of a gate."""
    lines = [headline(summary, context), *(f"    {each}" for each in under_test(context))]
    for change in DETAILED:
        for result in summary.anomalies(change):
            lines += ["", *_case_lines(result, context)]
    groups: dict[str, list[CaseResult]] = {}
    for result in (each for change in QUIET for each in summary.anomalies(change)):
        groups.setdefault(_heading(result), []).append(result)
    for heading, found in groups.items():
        lines += ["", heading, *(f"    {result.case.label}: {result.case.title}" for result in found)]
    return "\n".join([*lines, "", *notes(summary)])


def _heading(result: CaseResult) -> str:
    reason = f": {result.comparison.reason}" if result.change is Change.UNSUPPORTED else ""
    return f"{result.word.upper()}{reason}"


def _case_lines(result: CaseResult, context: GateContext) -> Iterator[str]:
    comparison = result.comparison
    yield f"{result.word.upper()}  {result.case.label}: {result.case.title}"
    yield f"    {comparison.reason}"
    if effect := describe_effect(comparison.effect):
        pairs = format_count(len(comparison.pairs), "pair")
        sure = f", confidence {confidence(comparison)}" if comparison.confidence is not None else ""
        yield f"    candidate against baseline: {effect} in {pairs} of runs{sure}"
    yield f"    {context.reproduce(result)}"


def confidence(comparison: Comparison) -> str:
    """Return the confidence of a comparison in words, empty if it has none."""
    if comparison.confidence is None:
        return ""
    return "over 99.9%" if comparison.confidence > 0.999 else f"{100 * comparison.confidence:.3g}%"


def answer_of(summary: GateSummary, context: GateContext) -> GateAnswer:
    """Return the answer as the record keeps it."""
    return GateAnswer(
        headline=headline(summary, context),
        baseline=context.baseline,
        candidate=context.candidate,
        differences=tuple(under_test(context)),
        cases=tuple(_answered(result, context) for change in ORDER for result in summary.anomalies(change)),
        notes=notes(summary),
    )


def _answered(result: CaseResult, context: GateContext) -> AnsweredCase:
    case, comparison = result.case, result.comparison
    return AnsweredCase(
        result.change,
        case.label,
        case.title,
        comparison.reason,
        describe_effect(comparison.effect),
        confidence(comparison),
        context.reproduce(result),
    )


def render_gate(summary: GateSummary, context: GateContext, wall_seconds: float) -> Json:
    """Return the object of `collie gate --format json`."""
    search = summary.search
    safety = {side: render_safety(record) for side, record in context.safety.items()}
    return {
        "schema_version": SCHEMA_VERSION,
        "passed": summary.exit_code(inconclusive_fails=context.inconclusive_fails) == 0,
        "exit_code": context.exit_code,
        "baseline": context.baseline,
        "candidate": context.candidate,
        "campaign": context.campaign,
        "under_test": list(context.under_test),
        "fingerprint_difference": render_differences(context.differences),
        "false_alarm_chance": summary.false_alarm,
        "pair_differs_chance": summary.chances.differ,
        "pair_misses_chance": summary.chances.false_negative_rate,
        "paired": summary.paired,
        "candidate_runs": summary.runs[0],
        "baseline_runs": summary.runs[1],
        "elapsed_seconds": plain(summary.elapsed_seconds),
        "wall_seconds": plain(wall_seconds),
        "search_ended_by": search.ended_by if search else None,
        "search_runs": summary.search_runs,
        "search_elapsed_seconds": plain(summary.search_seconds),
        "untested_neighbours": len(summary.untested),
        "needed_budget": summary.needed.as_option if summary.needed else None,
        "lost_machines": [{"side": side.value, **render_lost(each)} for side, each in summary.lost],
        "counts": {change.value: len(summary.of(change)) for change in ORDER},
        "cases": [_case(result, context) for result in summary.results],
        **({"safety": safety} if safety else {}),
    }


def _case(result: CaseResult, context: GateContext) -> Json:
    case, comparison = result.case, result.comparison
    return {
        "name": case.name,
        "kind": case.kind.value,
        "title": case.title,
        "change": result.change.value,
        "reason": comparison.reason,
        "confidence": plain(comparison.confidence),
        "false_alarm_share": plain(result.share),
        "symptom": case.symptom.value if case.symptom else None,
        "effect": _effect(comparison.effect),
        "pairs": [
            {
                "baseline": _reading(pair.before),
                "candidate": _reading(pair.after),
                "candidate_is": pair.sign.value if isinstance(pair.sign, Sign) else None,
            }
            for pair in comparison.pairs
        ],
        "screened": [_reading(reading) for reading in comparison.screened],
        "workload": render(case.workload),
        "features": features(case.mfs),
        "elapsed_seconds": plain(result.elapsed_seconds),
        "reproduce": context.reproduce(result),
    }


def _effect(effect: Effect | None) -> Json | None:
    if effect is None:
        return None

    def spread(found: Spread | None) -> Json | None:
        return None if found is None else dict(zip(("median", "low", "high"), plain(found), strict=True))

    return {
        "severity_difference": spread(effect.severity),
        "throughput_ratio": spread(effect.throughput_ratio),
        "pause_ratio_difference": spread(effect.pause_difference),
        "interval_coverage": effect.coverage,
    }


def _reading(reading: RunReading) -> Json:
    verdict = reading.verdict
    return {
        "outcome": verdict.outcome.value,
        "symptom": verdict.symptom.value if verdict.symptom else None,
        "severity": plain(verdict.severity) if verdict.is_anomalous else None,
        "delivered_bps": plain(reading.delivered_bps),
        "pause_ratio": plain(reading.pause_ratio),
        "unbounded": reading.unbounded,
        "reason": verdict.reason,
    }
