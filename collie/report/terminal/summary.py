"""Results as text, in colour where the terminal supports it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from collie.campaign.reproduce import Reproduction
from collie.campaign.single_run import JudgedRun, Phase
from collie.campaign.summary import Score, Summary, Unconfirmed
from collie.counters.catalog import Catalog
from collie.detect.bounds import Bound
from collie.detect.interval import wilson
from collie.detect.measurement import HostMeasurement, Measurement, Victim
from collie.detect.symptom import Verdict
from collie.inventory.fingerprint import HostDifference
from collie.ports import CampaignHeader, HostLost, Measured, RunResult, SetupFailed, Unsupported
from collie.report.quantities import (
    effort,
    interval,
    known_elsewhere,
    latency,
    name_testbed,
    packet_rate,
    percent,
    rate,
    reading,
    relative,
    runs,
    show,
    times,
    victim_kept,
)
from collie.report.ranking import awaits_explanation
from collie.report.terminal.findings import findings_table
from collie.report.terminal.table import NARROWEST
from collie.report.terminal.trials import trial_lines
from collie.search.anomaly import NO_COUNTERS, Anomaly, causes_of
from collie.search.second_cause import NO_FLOOR, Floor
from collie.workloads.effect import has_effect
from collie.workloads.units import format_count, format_seconds
from collie.workloads.workload import FIELD_NAMES

Line = Text | str

_MAX_UNCONFIRMED = 5
_LEAST_REPEATS = 10
"""Repeated phases below which their share says nothing: 0 of 1 differed would be 0 to 79% of them."""
_SIZES = ("qps", "messages")
"""Fields without which no workload can be pictured. They are named even where they are plain."""
_LEADING = ("qp_type", "opcode", "more_opcodes")
"""Fields that a headline begins with."""


def render_summary(
    header: CampaignHeader,
    summary: Summary,
    wall_seconds: float,
    score: Score | None = None,
    victims: Mapping[str, Victim] | None = None,
) -> str:
    """Return the findings and the cost of a search. `victims` has the victim of each anomaly's run, by its id."""
    lines: list[Line] = [_headline(header, summary, wall_seconds)]
    causes = causes_of(summary.anomalies)
    for anomaly, joined in causes:
        if not awaits_explanation(anomaly):
            lines += ["", *_anomaly(anomaly, joined, (victims or {}).get(anomaly.id))]
    notes = [Text(note, "dim") for note in (*_unconfirmed(summary.unconfirmed), *_notes(summary))]
    if score is not None:
        notes.append(Text(_score(score)))
    table = list(findings_table([anomaly for anomaly, _ in causes], terminal_width()))
    return styled([*lines, *([""] if notes else []), *notes, *([""] if table else []), *table])


def render_measurement(judged: JudgedRun, catalog: Catalog) -> str:
    """Return the measurement of one run, with every counter in the unit of its `catalog`."""
    result = judged.result
    lines: list[Line] = [*_phase(judged.phase), Text(traffic(judged), "bold")]
    lines += failure_lines(result)
    if isinstance(result, Measured):
        lines += verdict_lines(judged.verdict)
        lines += ["", *_hosts(result.measurement, judged.host_bounds)]
        lines += [Text(f"note: {note}", "dim") for note in result.measurement.notes]
        lines += ["", *_counters(result.measurement, catalog)]
    return styled(lines)


def failure_lines(result: RunResult) -> Iterator[Line]:
    """Yield why a run has no measurement, if it has none."""
    match result:
        case SetupFailed(cause, detail):
            yield Text(f"could not be set up: {cause}", "bold red")
            yield f"    {detail}"
        case HostLost(host, detail):
            yield Text(f"host {host} was lost, and brought back", "bold red")
            yield f"    {detail}"
        case Unsupported(reason):
            yield Text(f"unsupported: {reason}", "bold yellow")


def _phase(phase: Phase | None) -> Iterator[Line]:
    if phase is None:
        return
    because = f": {phase.apart}" if phase.apart and phase.number == 1 else ""
    yield Text(f"set-up {phase.set_up}, phase {phase.number}{because}", "dim")


def render_trials(name: str, reproduction: Reproduction, changed: Sequence[HostDifference] | None = None) -> str:
    """Return the result of a reproduction."""
    return styled(Text(line.text, line.style) for line in trial_lines(name, reproduction, changed))


def _score(score: Score) -> str:
    found = f"{len(score.found)} of {len(score.planted)} planted mechanisms found"
    parts = [f"Score: {found}, {len(score.explained)} explained to the end, {score.false} false"]
    for title, names in (
        ("missed", score.missed),
        ("hidden behind another cause", score.hidden),
        ("joined to another cause", score.merged_wrong),
        ("absent from this space", score.absent),
    ):
        if names:
            parts.append(f"{title}: {', '.join(names)}")
    return f"{'; '.join(parts)}."


def _headline(header: CampaignHeader, summary: Summary, wall_seconds: float) -> Text:
    causes = [anomaly for anomaly, _ in causes_of(summary.anomalies)]
    explained = sum(anomaly.complete for anomaly in causes)
    found = f"{format_count(len(causes), 'anomaly')}, {explained} explained," if causes else "No anomaly"
    return Text.assemble(
        (f"{found} on {name_testbed(header)}", "bold red" if causes else "bold green"),
        f" in {effort(summary.runs, summary.set_ups)}: {format_seconds(summary.elapsed_seconds)} of testbed time,"
        f" {format_seconds(wall_seconds)} of wall time",
    )


def _anomaly(anomaly: Anomaly, joined: Sequence[Anomaly], victim: Victim | None) -> Iterator[Line]:
    symptom = anomaly.symptom.words
    when = f"found in run {anomaly.found_at_run}, confirmed after {format_seconds(anomaly.found_at_seconds)}"
    here, found = anomaly.compared_figures
    as_found = f" ({found} as found)" if found not in ("", here) else ""
    explained = f"explained in {runs(anomaly.extraction_runs)}{_claim(anomaly)}"
    if anomaly.revised:
        explained += f", revised {'once' if len(anomaly.revised) == 1 else f'{len(anomaly.revised)} times'}"
    if not anomaly.complete:
        explained = f"not explained to the end{_claim(anomaly)}" if anomaly.explanation_begun else "not explained yet"
    yield Text.assemble((anomaly.id, "bold red"), f"  {symptom}, {here}{as_found}, {when}, {explained}")
    yield f"    {anomaly.sentence}"
    if anomaly.complete or anomaly.mfs.conditions:
        yield Text(f"    {anomaly.mfs}", "cyan")
    if victim is not None and not anomaly.symptom.is_of_victim:  # otherwise the sentence has said it
        yield f"    the victim {victim_kept(victim)}"
    if anomaly.telling:
        moved = ", ".join(f"{item.counter} ({item.component}, {times(item.factor)})" for item in anomaly.telling)
        yield Text(f"    moved most against healthy plain traffic: {moved}", "dim")
    elif anomaly.is_plain:
        yield Text(f"    {NO_COUNTERS}", "dim")
    if anomaly.hint:
        yield f"    likely: {anomaly.hint}"
    if anomaly.known_as:
        yield f"    looked for as {anomaly.known_as}"
    if joined:
        more = "once" if len(joined) == 1 else f"{len(joined)} times"
        yield Text(f"    seen {more} more: {', '.join(other.id for other in joined)}", "dim")


def _claim(anomaly: Anomaly) -> str:
    if (shown := anomaly.shown_interval) is not None:
        fresh = format_count(anomaly.fresh_runs, "fresh run")
        return f", shows in {anomaly.fresh_shows} of {fresh}{_least(anomaly.floor)} ({interval(shown)})"
    if not anomaly.trials:
        return ""
    show = "shows" if anomaly.trials == 1 else "show"
    return f" ({anomaly.passed} of {runs(anomaly.trials)} inside {show} it)"


def _least(floor: Floor) -> str:
    """Say what a run must show to count, empty if any anomalous one does."""
    most = floor.most_received
    if most is None:
        return f", with a severity of at least {percent(floor.severity)}" if floor != NO_FLOOR else ""
    bits = "" if most.is_of_small_packets else f" and {rate(most.bps)}"
    return f", with less than {packet_rate(most.pps)}{bits} received"


def _unconfirmed(suspicions: Sequence[Unconfirmed]) -> Iterator[str]:
    for suspicion in suspicions[:_MAX_UNCONFIRMED]:
        shows = f"shows in {suspicion.shows} of {runs(suspicion.runs)}"
        if suspicion.shows == suspicion.runs:
            shows += ", and `confirmation.runs` of the recipe allows too few to tell it from disturbances"
        yield f"unconfirmed: {suspicion.verdict.reason} (run {suspicion.run}, {shows})"
    if (more := len(suspicions) - _MAX_UNCONFIRMED) > 0:
        yield f"unconfirmed: {more} more"


def _notes(summary: Summary) -> Iterator[str]:
    failed = sum(summary.failed_runs.values())
    if failed:
        causes = ", ".join(f"{count} x {cause}" for cause, count in sorted(summary.failed_runs.items()))
        yield f"{runs(failed)} could not be set up: {causes}."
    for pair, reason in summary.set_aside.items():
        yield f"{pair} was set aside: {reason}."
    for lost in summary.lost:
        yield f"Run {lost.run} cost host {lost.host}, which was brought back: {lost.detail}."
    for killer in summary.path_killers:
        assert isinstance(killer.result, SetupFailed)
        yield f"Every run of a workload ended in a dead data path, last run {killer.run}: {killer.result.detail}."
    yield from known_elsewhere(summary.not_confirmed)
    if summary.unsupported_runs:
        yield f"{runs(summary.unsupported_runs)} asked for what the device cannot do."
    if summary.ended_by == "pause budget":
        yield (
            "Ended early: the pause budget is spent; --resume goes on where there is more of it "
            "(docs/explanation/safety.md)."
        )
    if summary.ended_by == "coverage":
        yield "Ended early: what was found explains all that could still be proposed."
    carried = wilson(summary.changed_phases, summary.repeated_phases)
    if carried is not None and summary.repeated_phases >= _LEAST_REPEATS:
        repeated = format_count(summary.repeated_phases, "normal phase")
        differed = f"{summary.changed_phases} of {repeated} differed when repeated on a fresh set-up"
        yield f"{differed}: carry-over from earlier phases in {interval(carried)} of them."
    if summary.trust:
        yield f"{_capital(summary.trust.sentence)}."
    if summary.discovery_estimate:
        explaining = sum(anomaly.extraction_runs for anomaly in summary.anomalies)
        took = f"; explanations took {explaining:,} of the {runs(summary.runs)}" if explaining else ""
        yield f"{_capital(summary.discovery_estimate.sentence)}{took}."


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def differing(judged: JudgedRun) -> list[str]:
    """Return the fields of a run that differ from plain traffic and can act on it."""
    workload, sibling = judged.workload, judged.sibling
    return [name for name in FIELD_NAMES if workload.get(name) != sibling.get(name) and has_effect(name, workload)]


def traffic(judged: JudgedRun, also: Collection[str] = ()) -> str:
    """Return the transport and sizes of a run, and its differences from plain traffic that can act on it.

    Fields in `also` are named even where they are those of plain traffic.
    """
    workload, sibling = judged.workload, judged.sibling
    differences = [
        f"{name} {show(name, workload.get(name))} (sibling {show(name, sibling.get(name))})"
        for name in differing(judged)
    ]
    opcodes = "/".join(workload.opcodes)
    sizes = (*_SIZES, "offered_bps") if workload.offered_bps else _SIZES
    named = [*sizes, *(name for name in FIELD_NAMES if name in also and name not in (*sizes, *_LEADING))]
    plain = [f"{name} {show(name, workload.get(name))}" for name in named if workload.get(name) == sibling.get(name)]
    return f"{', '.join([f'{workload.qp_type} {opcodes}', *plain])}: {', '.join(differences) or 'plain traffic'}"


def verdict_lines(verdict: Verdict | None) -> Iterator[Line]:
    """Yield the outcome and its reason."""
    if verdict is None:
        return
    style = "bold red" if verdict.is_anomalous else "bold green" if verdict.is_normal else "bold yellow"
    symptom = f": {verdict.symptom.words}, {verdict.figure}" if verdict.symptom else ""
    yield Text(f"{verdict.outcome}{symptom}", style)
    yield f"    {verdict.reason}"


def _hosts(measurement: Measurement, bounds: Mapping[str, Bound]) -> Iterator[str]:
    for host in measurement.hosts:
        yield f"host {host.host}  {_host(host, bounds.get(host.host))}"
    health = measurement.health
    driven = "drove the workload" if health.driven else f"could not drive the workload: {health.reason}"
    path = f" ({health.data_path})" if health.data_path else ""
    filled = f", send queues {percent(health.queue_fill_ratio)} full" if health.queue_fill_ratio is not None else ""
    steady = "stable" if measurement.stable else "not stable"
    yield f"window  {measurement.window_seconds:.3g} s, {steady}; the generator{path} {driven}{filled}"
    if health.slowest_qp_share is not None:
        yield f"queue pairs  the slowest does at most {relative(min(1.0, health.slowest_qp_share))} of the mean"
    if health.slowest_flow_share is not None:
        yield f"hosts  the slowest does {relative(health.slowest_flow_share)} of the mean"
    for flow, measured in measurement.latency.items():
        yield f"latency {flow}  {latency(measured)}"
    if measurement.wrong_bytes is not None:
        yield f"payload  {measurement.wrong_bytes:,} bytes arrived wrong"
    yield from victim_lines(measurement)


def victim_lines(measurement: Measurement) -> Iterator[str]:
    """Yield what a victim keeps, and how long its messages take. Nothing without one."""
    if measurement.victim is not None:
        yield f"victim  {victim_kept(measurement.victim)}"
        if measurement.victim.latency is not None:
            yield f"latency victim  {latency(measurement.victim.latency)}"


def _host(host: HostMeasurement, bound: Bound | None) -> str:
    parts = []
    if host.delivered_bps is not None or host.delivered_pps is not None:
        received = f"receives {rate(host.delivered_bps)}, {packet_rate(host.delivered_pps)}"
        if bound is not None:
            received += f" (bound {rate(bound.bps)}, {packet_rate(bound.pps)} by the {bound.name})"
        parts.append(received)
    parts.append(f"sends pause {percent(host.tx_pause_ratio)}, receives pause {percent(host.rx_pause_ratio)}")
    if host.tx_pause_ratio is None and host.tx_pause_frames:
        parts.append(f"sends {host.tx_pause_frames:,.0f} pause frames/s")
    if host.loss_ratio:
        parts.append(f"loses {percent(host.loss_ratio)} of its packets")
    if host.rnr_ratio:
        parts.append(f"turns {percent(host.rnr_ratio)} of the messages away (RNR)")
    if host.repeat_ratio:
        parts.append(f"receives {percent(host.repeat_ratio)} of its packets again")
    return "; ".join(parts)


def _counters(measurement: Measurement, catalog: Catalog) -> Iterator[str]:
    names = list(dict.fromkeys(name for host in measurement.hosts for name in host.counters))
    if not names:
        return
    heads = ("counter", "unit", *(f"host {host.host}" for host in measurement.hosts))
    rows = [heads]
    for name in names:
        rows.append((name, catalog.rate_unit(name), *(reading(h.counters.get(name)) for h in measurement.hosts)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, unit, *readings in rows:
        right = (text.rjust(width) for text, width in zip(readings, widths[2:], strict=True))
        yield "  ".join((name.ljust(widths[0]), unit.ljust(widths[1]), *right))


def terminal_width() -> int | None:
    """Return the columns of the terminal, or None for a pipe or a file."""
    return Console().width if sys.stdout.isatty() else None


def styled(lines: Iterable[Line]) -> str:
    """Return lines as text. A terminal gets them wrapped between words. In a pipe each stays one line, for grep."""
    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False, soft_wrap=True)
    width = terminal_width()
    with console.capture() as capture:
        for line in lines:
            text = line if isinstance(line, Text) else Text(line)  # brackets in the output of hosts are no markup
            for part in [text] if width is None else _wrapped(text, console, width):
                console.print(part)
    return capture.get().rstrip("\n")


def _wrapped(text: Text, console: Console, width: int) -> Iterator[Text]:
    """Yield a line as those that fit, with its indentation."""
    indent = len(text.plain) - len(text.plain.lstrip())
    if text.cell_len <= width or width - indent < NARROWEST:
        yield text
        return
    for part in text[indent:].wrap(console, width - indent):
        part.rstrip()
        yield Text(" " * indent) + part
