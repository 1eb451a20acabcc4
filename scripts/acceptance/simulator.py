"""The simulator's tables: what the subsystems A to H show, and why that is no table of rules.

    .venv/bin/python scripts/acceptance/simulator.py                    everything
    .venv/bin/python scripts/acceptance/simulator.py triggers regions   some parts, printed only
    .venv/bin/python scripts/acceptance/simulator.py --subsystem FILE   what a file shows by itself, printed only

The parts are the functions of `PARTS`. Everything rewrites the tables in docs/evidence/simulator.md. Exit
code 1 when something falls short.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from collie.app import testbeds
from collie.campaign.budget import parse_budget
from collie.campaign.choice import TestbedChoice
from collie.campaign.run import Campaign
from collie.content.anomalies import load_references
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.detect.bounds import Calibration
from collie.ports import CampaignHeader
from collie.simulator.cures import cured
from collie.simulator.hardware import Subsystem
from collie.simulator.mechanism import Mechanism
from collie.simulator.model import evaluate, evaluate_many
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth, planted
from collie.store.memory import MemoryStore
from collie.testing.fakes import ListSink
from collie.wiring import ADAPTERS
from collie.workloads.reference import ReferenceAnomaly
from collie.workloads.workload import Memory, Workload
from tests.support.leading import LEADING, leads
from tests.support.public_figures import FIGURES, UNMODELLED, second_reading, second_summary, shortfalls, summary
from tests.support.regions import broken, inside, names
from tests.support.sized import SIZED, threshold
from tests.support.smoothness import steps, walks

SPACE = load_space("nsdi22")
REFERENCES = load_references("nsdi22")
FAMILY = ("A", "B", "C", "D", "E", "F", "G", "H")
PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "simulator.md"
INSIDE = 1_000
OUTSIDE = 20_000
SEEDS = range(1, 21)
FACTOR = 1.5
REPORTED = ("F", "H")
NEEDS_LOAD = {"nsdi22-11", "nsdi22-12", "nsdi22-13"}
"""These also need an offered load above 60 % of line rate."""

Result = tuple[str, bool]
"""A table, and whether it shows what was asked."""


def main() -> int:
    """Make the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}; all without any")
    parser.add_argument("--subsystem", action="append", default=[], metavar="NAME|FILE", help="instead of F and H")
    options = parser.parse_args()
    words = options.parts or ([part.__name__ for part in OF_ANY_FILE] if options.subsystem else [])
    if unknown := sorted({*words} - {*PARTS}):
        parser.error(f"no such part: {', '.join(unknown)}")
    fine = True
    page = PAGE.read_text()
    for name in words or PARTS:
        part = PARTS[name]
        table, passed = part(options.subsystem) if part in OF_ANY_FILE and options.subsystem else part()
        print(f"== {name}: {'as asked' if passed else 'FALLS SHORT'}\n{table}\n", flush=True)
        fine &= passed
        page = _replaced(page, name, table)
    if not words:
        PAGE.write_text(page)
    return 0 if fine else 1


def _replaced(page: str, name: str, table: str) -> str:
    """Put a table between its two markers."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda match: f"{match[1]}{table}\n{match[2]}", page)


def _rows(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


@cache
def _file(name: str) -> SubsystemFile:
    return load_subsystem(name, SubsystemFile)


def _subsystem(reference: ReferenceAnomaly) -> SubsystemFile:
    return _file(reference.subsystem).with_settings(reference.settings)


@cache
def _truth(name: str, settings: tuple[tuple[str, str], ...] = ()) -> Truth:
    return Truth(_file(name).with_settings(dict(settings)), SPACE)


def _truth_of(reference: ReferenceAnomaly) -> Truth:
    return _truth(reference.subsystem, tuple(reference.settings.items()))


def _mechanism(reference: ReferenceAnomaly) -> Mechanism:
    credited = _truth_of(reference).mechanism(reference.trigger)
    assert credited is not None, f"the trigger of {reference.id} is normal"
    return credited


def _number(reference: ReferenceAnomaly) -> str:
    return f"#{int(reference.id.rpartition('-')[2])}"


def triggers() -> Result:
    """Row 1: the paper's triggers."""
    rows, fine = [], True
    for reference in REFERENCES:
        subsystem = _subsystem(reference)
        state = evaluate(subsystem.hardware, reference.trigger)
        verdict = _truth_of(reference).verdict(reference.trigger)
        pause = max(state.pause_ratio())
        delivered = min(bps for bps, gets in zip(state.delivered_bps(), state.receives(), strict=True) if gets)
        passed = verdict.symptom == reference.symptom
        if wanted := reference.severity.pause_ratio:
            passed &= wanted / FACTOR <= pause <= wanted * FACTOR
        if rate := reference.severity.delivered_bps:
            passed &= rate / FACTOR <= delivered <= rate * FACTOR
        if deficit := reference.severity.throughput_deficit:
            missing = 1 - delivered / subsystem.wire.line_rate_bps
            passed &= missing >= deficit or verdict.severity >= deficit
        fine &= passed
        rows.append(
            (
                _number(reference),
                reference.subsystem,
                reference.severity.text,
                f"{pause:.1%}",
                f"{delivered / 1e9:.1f}",
                f"{_deficit(verdict.severity, pause)}",
                f"`{_mechanism(reference)}`",
                "yes" if passed else "**no**",
            )
        )
    heads = ("#", "on", "paper", "pause", "Gbit/s, worst host", "severity", "mechanism", "agrees")
    return _rows(heads, rows), fine


def _deficit(severity: float, pause: float) -> str:
    return f"{severity:.0%}" if severity > pause + 0.005 else "= pause"


def conditions() -> Result:
    """Row 2: one condition broken."""
    rows, fine = [], True
    for reference in REFERENCES:
        truth, mine = _truth_of(reference), _mechanism(reference)
        changed = [
            (workload, condition)
            for condition in reference.conditions.conditions
            for workload in broken(SPACE, reference.trigger, condition)
        ]
        unbroken = [
            str(condition)
            for condition in reference.conditions.conditions
            if not broken(SPACE, reference.trigger, condition)
        ]
        still = [names(workload, reference.trigger, c) for workload, c in changed if mine in truth.costs(workload)]
        others = [
            f"{names(workload, reference.trigger, condition)}: `{other}`"
            for workload, condition in changed
            if (other := truth.mechanism(workload)) not in (None, mine)
        ]
        fine &= not still and not unbroken
        count = len(reference.conditions.conditions)
        rows.append(
            (_number(reference), count, len(changed), ", ".join(still + unbroken) or "none", "; ".join(others) or "-")
        )
    heads = ("#", "conditions", "ways to break one", "still anomalous by it", "anomalous by something else")
    return _rows(heads, rows), fine


def regions() -> Result:
    """Row 3: points inside each region."""
    rows, fine = [], True
    for reference in REFERENCES:
        rng = Random(int(reference.id[-2:]))
        points = [inside(SPACE, reference.conditions, reference.trigger, rng) for _ in range(INSIDE)]
        if reference.id in NEEDS_LOAD:
            points = _loaded(_subsystem(reference).hardware, points)
        mine = _mechanism(reference)
        credited = Counter(_truth_of(reference).mechanisms(points))
        share, hidden = credited[mine] / len(points), 1 - (credited[mine] + credited[None]) / len(points)
        others = [f"`{name}`" for name, _ in credited.most_common() if name not in (mine, None)]
        fine &= share + hidden >= 0.7
        rows.append((_number(reference), len(points), f"{share:.0%}", f"{hidden:.0%}", ", ".join(others) or "-"))
    return _rows(("#", "points", "by its mechanism", "by one that hides it", "these"), rows), fine


def _loaded(hardware: Subsystem, points: list[Workload]) -> list[Workload]:
    """Keep the points that would offer more than 60 % of line rate if nothing went wrong."""
    healthy = evaluate_many(cured(hardware, Mechanism), points)
    rates = np.maximum(*healthy.delivered_bps())
    return [point for point, rate in zip(points, rates, strict=True) if rate > 0.6 * hardware.wire.line_rate_bps]


def outside() -> Result:
    """Row 4: random points, in and outside all regions."""
    rows, fine = [], True
    for name in ("F", "H"):
        mine = [reference for reference in REFERENCES if reference.subsystem == name]
        points = _drawn(
            _file(name), OUTSIDE, lambda point, mine=mine: not any(r.conditions.covers(point) for r in mine)
        )
        credited = Counter(_truth(name).mechanisms(points))
        anomalous = np.count_nonzero(_truth(name).severities(points))
        surprises = set(credited) - {None} - set(planted(_file(name)))
        unexplained = anomalous - (len(points) - credited[None])
        fine &= anomalous <= 0.05 * len(points) and not surprises and not unexplained
        by = ", ".join(f"`{who}` {count}" for who, count in credited.most_common() if who)
        rows.append((name, f"{len(points):,} outside all regions", f"{anomalous / len(points):.1%}", by))
        anywhere = _drawn(_file(name), OUTSIDE, lambda _: True)
        everywhere = Counter(_truth(name).mechanisms(anywhere))
        total = len(anywhere) - everywhere[None]
        by = ", ".join(f"`{who}` {count / len(anywhere):.2%}" for who, count in everywhere.most_common() if who)
        rows.append((name, f"{len(anywhere):,} anywhere", f"{total / len(anywhere):.1%}", by))
        rare = (Mechanism.SOCKET_LINK, Mechanism.PEER_TO_PEER_REDIRECT, Mechanism.LOOPBACK_INCAST)
        fine &= sum(everywhere[who] for who in rare) <= 0.05 * len(anywhere)
    return _rows(("on", "points", "anomalous", "by mechanism"), rows), fine


def _drawn(subsystem: SubsystemFile, count: int, wanted: Callable[[Workload], bool]) -> list[Workload]:
    rng, points = Random(17), []
    while len(points) < count:
        point = SPACE.sample(rng)
        if (subsystem.host.gpu or Memory.GPU not in (point.memory, point.peer_memory)) and wanted(point):
            points.append(point)
    return points


def smoothness(files: Sequence[str] = REPORTED) -> Result:
    """No single unit of a dimension decides more than ten points."""
    rows, fine, walked = [], True, 0
    for name in files:
        walked += sum(1 for witness in _file(name).witnesses for _ in walks(SPACE, witness.trigger))
        for step in steps(_file(name), SPACE):
            fine &= step.exempt is not None
            change = f"{step.low:,} to {step.high:,}"
            why = step.exempt or "**a single unit decides**"
            rows.append((name, f"`{step.mechanism}`", step.walk, change, f"{100 * step.size:.0f} points", why))
    heads = ("on", "from the witness of", f"along (of {walked} walks)", "step", "apart", "reason")
    return _rows(heads, rows), fine


def leading(files: Sequence[str] = REPORTED) -> Result:
    """The counters that lead to each anomaly."""
    rows, fine = [], True
    for name in files:
        found = list(leads(_file(name), SPACE))
        led = 0
        for lead in found:
            own = LEADING.get(lead.mechanism)
            led += own in lead.grown
            growth = _growth(lead.grown[own]) if own in lead.grown else "does not lead"
            others = ", ".join(f"`{other}` {_growth(times)}" for other, times in lead.grown.items() if other != own)
            counter = f"`{own}` {growth}" if own else "none"
            rows.append((name, f"`{lead.mechanism}`", counter, f"{lead.healthy:.0%}", others or "-"))
        fine &= led >= len(found) - 1
    heads = ("on", "mechanism", "counter of its own events", "healthy part of the line", "others that at least double")
    return _rows(heads, rows), fine


def _growth(times: float) -> str:
    return "from 0" if times == float("inf") else f"{times:,.1f} times" if times < 1000 else "over 1,000 times"


def resources(files: Sequence[str] = REPORTED) -> Result:
    """Row 5: the parameter halved and doubled."""
    rows, fine = [], True
    for sized in (replace(sized, subsystem=name) for name in files for sized in SIZED if sized.fits(_file(name), name)):
        less, typical, more = (threshold(sized, _file(sized.subsystem), SPACE, factor) for factor in sized.factors)
        ratios = (typical / less, more / typical) if less and typical and more else (0.0, 0.0)
        fine &= all(1.5 <= ratio <= 2.5 for ratio in ratios)
        value = getattr(getattr(_file(sized.subsystem), sized.part), sized.parameter)
        quantity = f"`{sized.part}.{sized.parameter}` = {value}"
        moved = f"{less}, {typical}, {more}"
        factors = ", ".join(f"{factor:g}" for factor in sized.factors)
        displayed = f"{ratios[0]:.2f}, {ratios[1]:.2f}"
        rows.append((f"`{sized.mechanism}`", sized.subsystem, quantity, sized.dimension, factors, moved, displayed))
    heads = ("mechanism", "on", "parameter", "dimension", "times", "threshold", "ratios")
    return _rows(heads, rows), fine


def cures() -> Result:
    """Row 6: every setting that cures."""
    rows, fine = [], True
    for name in ("F", "H"):
        subsystem = _file(name)
        for setting, description in subsystem.settings.items():
            for option in description.options:
                if option == description.value or not description.cures:
                    continue
                truth = _truth(name, ((setting, option),))
                cured_rows = []
                for reference in (reference for reference in REFERENCES if reference.subsystem == name):
                    settings = {**reference.settings, setting: option}
                    there = Truth(subsystem.with_settings(settings), SPACE) if reference.settings else truth
                    mechanism = _mechanism(reference)
                    if mechanism not in there.costs(reference.trigger):
                        cured_rows.append((reference, mechanism))
                gone = {mechanism for _, mechanism in cured_rows}
                named = set(description.cures)
                side = [
                    f"{_number(reference)} ({_why(reference, setting)})"
                    for reference, mechanism in cured_rows
                    if mechanism not in named
                ]
                fine &= named <= gone and all("Table 2" in text or "same setting" in text for text in side)
                mine = [_number(reference) for reference, mechanism in cured_rows if mechanism in named]
                rows.append((name, f"`{setting}={option}`", ", ".join(mine), ", ".join(side) or "none"))
    return _rows(("on", "setting", "removes", "and besides"), rows), fine


def _why(reference: ReferenceAnomaly, setting: str) -> str:
    if setting == "minimum_mtu" and any(condition.dimension == "mtu" for condition in reference.conditions.conditions):
        return "its row of Table 2 needs MTU 1K"
    if setting in reference.settings:
        return "measured with the same setting"
    return "unexpected"


def family() -> Result:
    """Row 8: which subsystem shows which."""
    rows, fine = [], True
    every = [*dict.fromkeys(mechanism for name in ("F", "H") for mechanism in planted(_file(name)))]
    for name in FAMILY:
        subsystem, truth = _file(name), _truth(name)
        displayed = planted(subsystem)
        credited = [truth.mechanism(witness.trigger) for witness in subsystem.witnesses]
        fine &= credited == [witness.mechanism for witness in subsystem.witnesses]
        fine &= name in ("F", "H") or set(displayed) <= set(planted(_file("F")))
        marks = ["x" if mechanism in displayed else "" for mechanism in every]
        rows.append((f"{name}: {subsystem.title}", len(displayed), *marks))
    heads = ("subsystem", "shows", *(f"`{mechanism}`" for mechanism in every))
    turned = list(zip(heads, *rows, strict=True))
    return _rows([str(cell) for cell in turned[0]], turned[1:]), fine


def difficulty() -> Result:
    """Row 10: random search on F for ten hours."""
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(_random_search, SEEDS))
    counts = [len(mechanisms) for mechanisms, _ in found]
    fourth = [minutes[3] for _, minutes in found if len(minutes) >= 4]
    mean = statistics.mean(counts)
    spread = f"median {statistics.median(fourth):.0f}, {min(fourth):.0f} to {max(fourth):.0f}"
    often = Counter(mechanism for mechanisms, _ in found for mechanism in mechanisms)
    by = ", ".join(f"`{mechanism}` {often[mechanism.value]}" for mechanism in planted(_file("F")))
    rows = [
        ("found of 13 in 10 h", f"mean {mean:.2f}, {min(counts)} to {max(counts)}", "7"),
        ("minutes to the fourth", spread, "34"),
        (f"seeds of {len(found)} that found", by, ""),
    ]
    return _rows(("random drawing, F", "measured", "paper"), rows), 5 <= mean <= 9


def _random_search(seed: int) -> tuple[list[str], list[float]]:
    """Return the mechanisms that one search found, and the minute at which each was."""
    choice = TestbedChoice()
    header = CampaignHeader("difficulty", {}, SPACE.name, "random", {}, seed, "2026-01-01T00:00:00Z")
    campaign = Campaign(
        testbed=testbeds.open_testbed(ADAPTERS, choice, seed),
        store=MemoryStore(header),
        space=SPACE,
        recipe=load_recipe("random"),
        budget=parse_budget("10h"),
        seed=seed,
        calibration=Calibration(),
    )
    anomalies = campaign.run(ListSink()).anomalies
    score = _truth("F").score(anomalies)
    first: dict[str, float] = {}
    for anomaly in sorted(anomalies, key=lambda anomaly: anomaly.found_at_seconds):
        mechanism = score.mechanisms[anomaly.id]
        if mechanism is not None:
            first.setdefault(mechanism, anomaly.found_at_seconds / 60)
    return list(first), sorted(first.values())


def measurements() -> Result:
    """Public figures, beside two subsystems that were written without them."""
    heads = ("figure", "source", "measured", "model", "ratio", "near", "why not")
    compared = _rows(heads, (figure.cells for figure in FIGURES))
    left_out = _rows(
        ("not expressible", "source", "reason"), ((one.text, one.source, one.reason) for one in UNMODELLED)
    )
    heads, *rows = second_reading()
    short = shortfalls()
    return "\n\n".join([compared, summary(), *short, _rows(heads, rows), second_summary(), left_out]), not short


OF_ANY_FILE = (smoothness, leading, resources)
PARTS: dict[str, Callable[..., Result]] = {
    part.__name__: part
    for part in (
        *(triggers, conditions, regions, outside, smoothness, leading, resources, cures, family, measurements),
        difficulty,
    )
}

if __name__ == "__main__":
    sys.exit(main())
