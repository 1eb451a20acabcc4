"""Kill simulated campaigns at random instants, resume them, and compare their records with uninterrupted ones.

    .venv/bin/python scripts/acceptance/resume.py --instants 50

A search is killed at so many instants, a search of four pairs and a gate at a third as many each. Instants are CPU time
of the process, one in each of as many equal parts of what the uninterrupted process needs, so start-up, the creation of
the record, the runs and the last writes all have their share. Every other campaign is killed again while it is resumed,
up to three times. Prints a Markdown table; exit code 1 when a record differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.support.faults.kills import Killed, SearchCourse, killed_and_resumed, uninterrupted
from tests.support.faults.processes import collie_command
from tests.support.faults.records import ABOUT_PROCESSES, UNLIKE

DEADLINE_SECONDS = 900.0
QUICKER = 0.95
_SEARCH = ("search", "--campaign", "c", "--format", "json", "--seed")


@dataclass
class Row:
    """A kind of campaign, and what became of it."""

    course: SearchCourse
    name: str
    kills: int = 0
    landed: Counter[str] = field(default_factory=Counter)
    differ: list[str] = field(default_factory=list)


def courses(folder: Path) -> tuple[tuple[str, SearchCourse, float], ...]:
    """Return what is killed: its name, its commands, and its share of the instants."""
    baseline = folder / "baseline"
    words = ["search", "--set", "firmware=22.31", "--budget", "40runs", "--seed", "1001", "--campaign", str(baseline)]
    ended = collie_command(words, folder, DEADLINE_SECONDS)
    assert ended.code == 0, ended.err
    gate = ("gate", "--baseline", str(baseline), "--campaign", "c", "--format", "json", "--seed", "7")
    return (
        ("`collie search`", SearchCourse((*_SEARCH, "1", "--budget", "80runs")), 1.0),
        ("`collie search --pairs 4`", SearchCourse((*_SEARCH, "2", "--budget", "13m", "--pairs", "4")), 1 / 3),
        ("`collie gate`", SearchCourse((*gate, "--subsystem", "F", "--budget", "90runs")), 1 / 3),
    )


def instants_of(count: int, seconds: float, rng: Random) -> list[float]:
    """Draw one instant in each of `count` equal parts of so many seconds."""
    return [(index + rng.random()) * seconds / count for index in range(count)]


def plan(first: float, seconds: float, index: int, rng: Random) -> list[float]:
    """Return the instants of one campaign: of its first process, and of up to two that resume it."""
    return [first, *(rng.uniform(0, seconds) for _ in range(rng.randint(1, 2) if index % 2 else 0))]


def run(row: Row, count: int, folder: Path, rng: Random) -> None:
    """Kill and resume one kind of campaign."""
    whole = uninterrupted(row.course, folder / "whole", DEADLINE_SECONDS)
    for index, first in enumerate(instants_of(count, whole.cpu_seconds, rng)):
        instants = plan(first, whole.cpu_seconds, index, rng)
        killed = killed_and_resumed(row.course, folder / str(index), instants, whole, DEADLINE_SECONDS)
        while not killed.landed:  # some processes are quicker than the one that was left alone
            instants = [instant * QUICKER for instant in instants]
            killed = killed_and_resumed(row.course, folder / str(index), instants, whole, DEADLINE_SECONDS)
        row.kills += len(killed.landed)
        row.landed.update(killed.landed)
        row.differ += [f"{row.name}, killed {killed.instants}: {each}" for each in killed.differences]
        _say(row, index, killed)


def _say(row: Row, index: int, killed: Killed) -> None:
    said = "equal" if not killed.differences else "DIFFERS: " + "; ".join(killed.differences)
    print(f"{row.name} {index}: {killed.instants}, {said}", file=sys.stderr, flush=True)


def table(rows: Sequence[Row]) -> str:
    """Return the table of docs/evidence/faults.md."""
    phases = sorted({phase for row in rows for phase in row.landed})
    lines = [f"| campaign | kills | {' | '.join(phases)} | records that differ |", f"|{' --- |' * (len(phases) + 3)}"]
    for row in rows:
        landed = " | ".join(str(row.landed[phase]) for phase in phases)
        lines.append(f"| {row.name} | {row.kills} | {landed} | {len(row.differ)} |")
    return "\n".join(lines)


def main() -> int:
    """Kill, resume, compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instants", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1, help="of the instants")
    options = parser.parse_args()
    began, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="collie-resume-") as place:
        for name, course, share in courses(Path(place)):
            row = Row(course, name)
            folder = Path(place) / f"kind-{len(rows)}"
            run(row, max(1, round(share * options.instants)), folder, Random(f"{options.seed} {name}"))
            rows.append(row)
    print(table(rows))
    unlike = ", ".join(f"{part}: {', '.join(names)}" for part, names in UNLIKE.items())
    print(f"\nNot compared: {unlike}; the files {', '.join(ABOUT_PROCESSES)}.\n{time.monotonic() - began:.0f} s")
    differ = [each for row in rows for each in row.differ]
    print("\n".join(differ), file=sys.stderr)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
