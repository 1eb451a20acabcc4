"""The judgement of a fleet as text, JSON and a page with a heat map. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from collie import __version__
from collie.fleet.verdict import FleetVerdict, HostAssessment, MetricDeviation
from collie.report.figures.scale import engineering
from collie.report.html.page import environment
from collie.report.quantities import percent, runs
from collie.workloads.units import format_count, format_seconds

MAX_SHOWN: Final = 40
"""Hosts in text and heat map: all odd ones, and up to this number of others, closest first."""
_BEYOND: Final = 1000.0
"""Bars above which scores are no longer distinguished."""
_LEVELS: Final = (0.25, 0.5, 1.0, 10.0)


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The judgement of a fleet.

    Attributes:
        verdict: None if nothing could be judged.
        failures: by host or hosts.
        incomplete: hosts with a missing measurement. The failures have the cause.
        not_run: skipped probes and their reasons.
        ended_by: why the battery ended early.
        elapsed_seconds: of testbed time.
    """

    name: str
    hosts: int
    verdict: FleetVerdict | None
    failures: Mapping[str, str]
    incomplete: Sequence[str]
    not_run: Mapping[str, str]
    ended_by: str | None
    runs: int
    elapsed_seconds: float

    @property
    def headline(self) -> str:
        """The answer in a few words."""
        if self.verdict is None:
            return "nothing could be judged"
        odd = self.verdict.odd
        if not odd:
            missing = {*self.incomplete, *self.verdict.unjudged}
            return f"no host is odd, and {len(missing)} not measured in full" if missing else "no host is odd"
        return f"{len(odd)} odd host{'s' * (len(odd) > 1)}: {', '.join(standing.host for standing in odd[:5])}" + (
            f" and {len(odd) - 5} more" if len(odd) > 5 else ""
        )

    @property
    def partly_judged(self) -> tuple[str, ...]:
        """The hosts that were compared only in part."""
        unjudged = self.verdict.unjudged if self.verdict else ()
        return tuple(host for host in self.incomplete if host not in unjudged)

    @property
    def displayed(self) -> tuple[HostAssessment, ...]:
        """The hosts that are listed one by one."""
        if self.verdict is None:
            return ()
        return self.verdict.standings[: max(MAX_SHOWN, len(self.verdict.odd))]


def fleet_text(report: FleetReport) -> str:
    """Return the ranking for a terminal."""
    lines = [f"{report.name}: {report.headline}"]
    if verdict := report.verdict:
        for rank, standing in enumerate(verdict.odd, start=1):
            lines += ["", *_odd_lines(rank, standing)]
        if others := verdict.standings[len(verdict.odd) :]:
            lines += ["", _rest(others)]
        lines += [f"not judged: {host}" for host in verdict.unjudged]
    lines += [f"not measured in full: {host}" for host in report.partly_judged]
    lines += [f"{who}: {cause}" for who, cause in report.failures.items()]
    lines += [f"left out: {probe}: {reason}" for probe, reason in report.not_run.items()]
    lines += [f"ended early: {report.ended_by}"] if report.ended_by else []
    return "\n".join([*lines, "", _effort(report)] if report.runs else lines)


def _rest(others: Sequence[HostAssessment]) -> str:
    nearest = others[0]
    near = f"nearest to being odd is {nearest.host}, at {score(nearest.score)} of the bar: {in_words(nearest.telling)}"
    return f"{len(others)} like each other; {near}"


def _effort(report: FleetReport) -> str:
    effort = f"{runs(report.runs)}, {format_seconds(report.elapsed_seconds)} of testbed time"
    if report.verdict is None:
        return effort
    chance = percent(report.verdict.false_alarm)
    compared = f"{format_count(report.verdict.metrics, 'metric')} of {format_count(report.hosts, 'host')}"
    return f"{effort}, {compared}; chance reaches the bar in at most {chance} of the fleets with nothing odd"


def _odd_lines(rank: int, standing: HostAssessment) -> list[str]:
    more = len(standing.odd_signs) - 1
    lines = [
        f"{rank}. {standing.host}: {standing.component}, {score(standing.score)} times the bar",
        f"   {in_words(standing.telling)}",
    ]
    return [*lines, f"   and {more} more metric{'s' * (more > 1)}"] if more else lines


def in_words(sign: MetricDeviation) -> str:
    """Return a host's reading and the healthy range in words."""
    healthy = f"{engineering(sign.low)} to {engineering(sign.high)}"
    return f"{sign.metric} {engineering(sign.value)} {sign.unit}, healthy {healthy}"


def score(value: float) -> str:
    """Format a deviation in bars."""
    if value >= _BEYOND:
        return f"over {_BEYOND:.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def fleet_json(report: FleetReport) -> dict[str, Any]:
    """Return the JSON object of a fleet. Each value has its unit beside it."""
    verdict = report.verdict
    return {
        "schema_version": 1,
        "fleet": report.name,
        "hosts": report.hosts,
        "runs": report.runs,
        "elapsed_seconds": report.elapsed_seconds,
        "metrics": verdict.metrics if verdict else None,
        "false_alarm_ratio": verdict.false_alarm if verdict else None,
        "odd": [standing.host for standing in verdict.odd] if verdict else None,
        "ranking": [_standing(standing) for standing in verdict.standings] if verdict else [],
        "unjudged": list(verdict.unjudged) if verdict else [],
        "incomplete": list(report.incomplete),
        "failures": dict(report.failures),
        "not_run": dict(report.not_run),
        "ended_by": report.ended_by,
    }


def _standing(standing: HostAssessment) -> dict[str, Any]:
    return {
        "host": standing.host,
        "odd": standing.is_odd,
        "score": standing.score,
        "component": standing.component,
        "signs": [_sign(sign) for sign in standing.odd_signs or (standing.telling,)],
    }


def _sign(sign: MetricDeviation) -> dict[str, Any]:
    return {
        "probe": sign.metric.probe,
        "metric": sign.metric.name,
        "component": sign.component,
        "unit": sign.unit,
        "value": sign.value,
        "peers_median": sign.median,
        "healthy_low": sign.low,
        "healthy_high": sign.high,
        "score": sign.score,
    }


@dataclass(frozen=True, slots=True)
class HostCell:
    """One host and one component in the heat map.

    Attributes:
        level: darkness, 0 to 4. Odd from 3 on, None if nothing could be compared.
        score: the largest deviation in bars, for the table.
        words: the same with its metric, for the tooltip.
    """

    level: int | None
    score: str
    words: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Each host's largest deviation in the metrics of each component."""

    components: tuple[str, ...]
    rows: tuple[tuple[HostAssessment, tuple[HostCell, ...]], ...]


def heat_map(standings: Sequence[HostAssessment]) -> HeatMap:
    """Return the heat map of some hosts, the components with the oddest hosts first."""
    most: dict[str, float] = {}
    for sign in (sign for standing in standings for sign in standing.signs):
        most[sign.component] = max(most.get(sign.component, 0.0), abs(sign.score))
    components = tuple(sorted(most, key=lambda name: -most[name]))
    return HeatMap(components, tuple((standing, _cells(standing, components)) for standing in standings))


def _cells(standing: HostAssessment, components: Sequence[str]) -> tuple[HostCell, ...]:
    largest: dict[str, MetricDeviation] = {}
    for sign in standing.signs:  # the largest deviation comes first
        largest.setdefault(sign.component, sign)
    return tuple(_cell(standing.host, name, largest.get(name)) for name in components)


def _cell(host: str, component: str, sign: MetricDeviation | None) -> HostCell:
    if sign is None:
        return HostCell(None, "", f"{host}, {component}: nothing to compare")
    level = sum(abs(sign.score) >= bound for bound in _LEVELS)
    bars = score(abs(sign.score))
    return HostCell(level, bars, f"{host}, {component}: {bars} of the bar; {in_words(sign)}")


def render_fleet(report: FleetReport) -> str:
    """Return the page of a fleet: one offline HTML file."""
    return (
        environment()
        .get_template("fleet.html.j2")
        .render(report=report, map=heat_map(report.displayed), version=__version__, in_words=in_words, score=score)
    )
