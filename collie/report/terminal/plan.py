"""The plan of a search as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from collie.report.quantities import show
from collie.report.terminal.summary import Line, styled
from collie.workloads.units import format_count, format_size

_MOST_DROPPED = 8


def render_plan(plan: Mapping[str, Any]) -> str:
    """Return the plan that `app.plans.describe` makes."""
    return styled(_lines(plan))


def _lines(plan: Mapping[str, Any]) -> Iterator[Line]:
    dimensions, size = format_count(len(plan["dimensions"]), "dimension"), format_size(plan["log10_size"])
    phases = f"{plan['phases']} runs on a set-up at most" if plan["phases"] > 1 else "a set-up for each run"
    for name, text in (
        ("testbed", plan["testbed"]),
        *(("host", f"{host}: {where}") for host, where in plan["hosts"].items()),
        ("space", f"{plan['space']}: {dimensions}, {size} before constraints"),
        ("recipe", f"{plan['recipe']}, strategy {plan['strategy']}, {phases}"),
        ("budget", f"{plan['budget']}, seed {plan['seed']}; {_known(plan)}"),
        ("limits", ", ".join(f"{name} {value}" for name, value in plan["safety"].items())),
    ):
        yield Text.assemble((f"{name:8} ", "bold"), str(text))
    for drop in plan["dropped"][:_MOST_DROPPED]:
        yield Text.assemble(("left out ", "bold"), f"{drop['dimension']} {drop['values']}: {drop['reason']}")
    if (more := len(plan["dropped"]) - _MOST_DROPPED) > 0:
        yield f"left out {more} more, see --format json"
    yield Text("first workloads, as differences from plain traffic", "bold")
    for workload in plan["first_workloads"]:
        different = [
            f"{name} {_value(name, value)}" for name, value in workload.items() if value != plan["plain"][name]
        ]
        yield f"    {', '.join(different) or 'plain traffic'}"


def _known(plan: Mapping[str, Any]) -> str:
    if not plan["known"]:
        return "skips no known anomalies"
    anomalies = format_count(plan["known"], "known anomaly")
    if plan["known_elsewhere"] is None:
        return f"skips {anomalies}, or tests them first if the hosts are unlike theirs"
    return f"tests {anomalies} first" if plan["known_elsewhere"] else f"skips {anomalies}"


def _value(name: str, value: Any) -> str:
    return show(name, tuple(value) if isinstance(value, list) else value)
