"""The judgement of a fleet as text, JSON and a page with a heat map."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from collie import __version__
from collie.app.fleets import FleetResult
from collie.campaign.fleet import FailedAttempt
from collie.fleet.reading import PATH_MTU
from collie.fleet.verdict import HostAssessment, MetricDeviation
from collie.report.figures.peers import PeerStrip, peer_strip
from collie.report.figures.scale import engineering
from collie.report.html.page import environment
from collie.report.json.objects import SCHEMA_VERSION, Json
from collie.report.quantities import percent, runs
from collie.workloads.units import format_count, format_seconds

MAX_SHOWN: Final = 40
"""Most hosts in the heat map. If more hosts are odd, it shows all odd ones."""
_BEYOND: Final = 1000.0
_WORTH_READING: Final = 0.5
"""Share of the bar from which a reading of a host that is not odd is told: few peers have a wide healthy range."""
_MAX_NAMED: Final = 5
"""Most names in a line. A fleet can have hundreds that fail alike."""


def headline(result: FleetResult) -> str:
    """Return the answer in a few words."""
    if result.verdict is None:
        return "nothing could be judged"
    odd = result.verdict.odd
    if not odd:
        missing = {*result.survey.incomplete, *result.verdict.unjudged}
        return f"no host is odd, and {len(missing)} not measured in full" if missing else "no host is odd"
    return f"{format_count(len(odd), 'odd host')}: {_some([standing.host for standing in odd])}"


def _some(names: Sequence[str], separator: str = ", ") -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{separator.join(names[:_MAX_NAMED])}{more}"


def alike(hosts: str, reason: str) -> str:
    """Return a reason without the names and addresses of its own hosts, so that hosts that fail alike have one."""
    names = "|".join(map(re.escape, hosts.split(",")))
    return re.sub(rf"\bhost (?:{names})(?![\w/.-])(?: \([^)]*\))?", "the host", reason)


def _grouped(failures: Iterable[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for hosts, reason in failures:
        groups.setdefault(alike(hosts, reason), []).append((hosts, reason))
    return groups


def _in_numbers(named: Sequence[str]) -> str:
    """Return the number of hosts, pairs or larger groups, and the first of them."""
    largest = max(each.count(",") for each in named)
    noun, separator = ("host", ", ") if largest == 0 else ("pair" if largest == 1 else "group", "; ")
    return f"{format_count(len(named), noun)} ({_some(named, separator)})"


def _failures(result: FleetResult) -> list[str]:
    """Return a line for each reason. One that concerns a single host has the reason in full."""
    return [
        f"{reason}: {_in_numbers([hosts for hosts, _ in group])}" if len(group) > 1 else ": ".join(group[0])
        for reason, group in _grouped(result.survey.failures.items()).items()
    ]


def repeated_attempts(attempts: Iterable[FailedAttempt]) -> list[str]:
    """Return a line for each reason for which several attempts failed."""
    return [
        f"{reason}: {format_count(len(group), 'attempt')}, {_in_numbers(list(dict(group)))}"
        for reason, group in _grouped((each.hosts, each.reason) for each in attempts).items()
        if len(group) > 1
    ]


def _not_in_full(result: FleetResult) -> list[str]:
    """Return what was not measured, in lines."""
    survey, verdict = result.survey, result.verdict
    unjudged, partly = verdict.unjudged if verdict else (), _partly_judged(result)
    return [
        *([f"not judged: {_some(unjudged)}"] if unjudged else []),
        *([f"not measured in full: {_some(partly)}"] if partly else []),
        *_failures(result),
        *(f"left out: {probe}: {reason}" for probe, reason in survey.left_out.items()),
        *([f"ended early: {survey.ended_by}"] if survey.ended_by else []),
    ]


def _partly_judged(result: FleetResult) -> list[str]:
    unjudged = result.verdict.unjudged if result.verdict else ()
    return sorted(host for host in result.survey.incomplete if host not in unjudged)


def fleet_text(result: FleetResult) -> str:
    """Return the ranking for a terminal."""
    survey = result.survey
    lines = [f"{result.name}: {headline(result)}"]
    if verdict := result.verdict:
        for rank, standing in enumerate(verdict.odd, start=1):
            lines += ["", *_odd_lines(rank, standing)]
        if others := verdict.standings[len(verdict.odd) :]:
            lines += ["", _rest(others)]
    lines += _not_in_full(result)
    return "\n".join([*lines, "", _effort(result)] if survey.runs else lines)


def _rest(others: Sequence[HostAssessment]) -> str:
    nearest = others[0]
    near = f"nearest to being odd is {nearest.host}, at {score(nearest.score)} of the bar"
    if nearest.score >= _WORTH_READING:
        near += f": {in_words(nearest.decisive)}"
    return f"{len(others)} like each other; {near}"


def _effort(result: FleetResult) -> str:
    survey, verdict = result.survey, result.verdict
    effort = f"{runs(survey.runs)}, {format_seconds(survey.elapsed_seconds)} of testbed time"
    if verdict is None:
        return effort
    compared = f"{format_count(verdict.metrics, 'metric')} of {format_count(len(result.hosts), 'host')}"
    chance = f"at most {percent(verdict.false_alarm)} of the fleets with nothing odd"
    return f"{effort}, {compared}; chance reaches the bar in {chance}"


def _odd_lines(rank: int, standing: HostAssessment) -> list[str]:
    more = len(standing.odd_signs) - 1
    lines = [
        f"{rank}. {standing.host}: {standing.component}, {score(standing.score)} times the bar",
        f"   {in_words(standing.decisive)}",
    ]
    return [*lines, f"   and {more} more metric{'s' * (more > 1)}"] if more else lines


def in_words(sign: MetricDeviation) -> str:
    """Return a host's reading and the healthy range in words."""
    form = "{:.0f}".format if sign.metric.name == PATH_MTU else engineering
    return f"{sign.metric} {form(sign.value)} {sign.unit}, healthy {form(sign.low)} to {form(sign.high)}"


def score(value: float) -> str:
    """Format a deviation, in multiples of the bar from which on a host is odd."""
    if value >= _BEYOND:
        return f"over {_BEYOND:.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def fleet_json(result: FleetResult) -> Json:
    """Return the object of `collie fleet`."""
    verdict, survey = result.verdict, result.survey
    return {
        "schema_version": SCHEMA_VERSION,
        "fleet": result.name,
        "hosts": len(result.hosts),
        "runs": survey.runs,
        "elapsed_seconds": survey.elapsed_seconds,
        "metrics": verdict.metrics if verdict else None,
        "false_alarm_ratio": verdict.false_alarm if verdict else None,
        "odd": [standing.host for standing in verdict.odd] if verdict else None,
        "ranking": [_standing(standing) for standing in verdict.standings] if verdict else [],
        "unjudged": list(verdict.unjudged) if verdict else [],
        "incomplete": sorted(survey.incomplete),
        "failures": dict(survey.failures),
        "failed_attempts": [
            {"hosts": each.hosts.split(","), "probe": each.probe, "reason": each.reason} for each in result.attempts
        ],
        "not_run": dict(survey.left_out),
        "ended_by": survey.ended_by,
    }


def _standing(standing: HostAssessment) -> Json:
    return {
        "host": standing.host,
        "odd": standing.is_odd,
        "score": standing.score,
        "component": standing.component,
        "signs": [_sign(sign) for sign in standing.odd_signs or (standing.decisive,)],
    }


def _sign(sign: MetricDeviation) -> Json:
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


class Heat(StrEnum):
    """How a host deviates in one component. Only the faulty component of an odd host is a fault."""

    FAULT = "fault"
    FOLLOWS = "follows"
    NEAR = "near"
    SOME = "some"
    LITTLE = "little"
    NONE = "none"


_BOUNDS: Final = ((0.5, Heat.NEAR), (0.25, Heat.SOME))
"""Smallest share of the bar."""


class _Cell(NamedTuple):
    """A host's largest deviation in one component."""

    heat: Heat
    score: str
    words: str


def _components(standings: Iterable[HostAssessment]) -> list[str]:
    """Return the faulty components, then the others by their largest deviation, the largest first."""
    most: dict[str, float] = {}
    for sign in (sign for standing in standings for sign in standing.signs):
        most[sign.component] = max(most.get(sign.component, 0.0), abs(sign.score))
    faulty = dict.fromkeys(standing.component for standing in standings if standing.component)
    return [*faulty, *sorted((name for name in most if name not in faulty), key=lambda name: -most[name])]


def _cells(standing: HostAssessment, components: Iterable[str]) -> list[_Cell]:
    largest = {sign.component: sign for sign in reversed(standing.signs)}  # the largest deviation comes first
    return [_cell(standing, name, largest.get(name)) for name in components]


def _cell(standing: HostAssessment, component: str, sign: MetricDeviation | None) -> _Cell:
    if component == standing.component:
        sign = standing.decisive
    if sign is None:
        return _Cell(Heat.NONE, "", f"{standing.host}, {component}: nothing to compare")
    size = score(abs(sign.score))
    return _Cell(_heat(standing, component, sign), size, f"{component}: {size} of the bar; {in_words(sign)}")


def _heat(standing: HostAssessment, component: str, sign: MetricDeviation) -> Heat:
    if component == standing.component:
        return Heat.FAULT
    if sign.is_odd:
        return Heat.FOLLOWS
    return next((heat for bound, heat in _BOUNDS if abs(sign.score) >= bound), Heat.LITTLE)


def _beside_peers(standing: HostAssessment, standings: Sequence[HostAssessment]) -> PeerStrip:
    """Return the reading that decided, beside that of every other host."""
    decisive = standing.decisive
    peers = [
        sign.value
        for other in standings
        if other is not standing
        for sign in other.signs
        if sign.metric == decisive.metric
    ]
    return peer_strip(standing.host, decisive.value, peers, decisive.low, decisive.high, decisive.unit)


def render_fleet(result: FleetResult) -> str:
    """Return the HTML page of a fleet."""
    verdict = result.verdict
    standings = verdict.standings if verdict else ()
    displayed = standings[: max(MAX_SHOWN, len(verdict.odd))] if verdict else ()
    named = verdict.odd if verdict and verdict.odd else displayed[:1]
    components = _components(displayed)
    return (
        environment()
        .get_template("fleet.html.j2")
        .render(
            result=result,
            headline=headline(result),
            not_in_full=_not_in_full(result),
            named=[(standing, _beside_peers(standing, standings)) for standing in named],
            components=components,
            rows=[(standing, _cells(standing, components)) for standing in displayed],
            version=__version__,
            in_words=in_words,
            score=score,
        )
    )
