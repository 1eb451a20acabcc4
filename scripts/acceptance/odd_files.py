#!/usr/bin/env python3
"""Puts FIFOs, devices, sockets, directories and links in the place of every file that a command reads or writes.

    python scripts/acceptance/odd_files.py                     all cases: some minutes on two cores
    python scripts/acceptance/odd_files.py --only campaign/    those of files with these words in their path or command

Prints a line for each file and command and every violation, and exits 1 if there is any: an answer that takes longer
than 2 s (the fastest of three counts, as other work may hold one up), no message or several, a traceback, another exit
code than documented, or more than 300 MB. The list is in tests/support/odd_files.py.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.support.odd_files import ANSWER_SECONDS, MAX_BYTES, ODDITIES, USES, Answer, Stage, Use

TRIES = 3


@dataclass(frozen=True)
class Case:
    """One file, command and oddity, and what came of it."""

    use: Use
    replacement: str
    answer: Answer
    wrong: str


def main() -> int:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORDS")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    uses = [use for use in USES if options.only in str(use)]
    oddities = [name for name in ODDITIES if name != "device node" or os.geteuid() == 0]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        stage = Stage(Path(folder) / "stage")
        cases = [
            case for found in pool.map(lambda use: list(_cases(stage, use, oddities)), uses) for case in _told(found)
        ]
    wrong = [case for case in cases if case.wrong]
    for case in wrong:
        print(f"VIOLATION {case.use}: {case.replacement}: {case.wrong}")
    slowest, largest = (max(cases, key=key) for key in (_seconds, _bytes))
    print(
        f"{len(cases)} cases of {len(uses)} uses of {len({use.file for use in uses})} files, {len(wrong)} violations; "
        f"slowest {_seconds(slowest):.2f} s ({slowest.use}: {slowest.replacement}), "
        f"most memory {_bytes(largest) >> 20} MB ({largest.use}: {largest.replacement})"
    )
    return 1 if wrong else 0


def _told(cases: list[Case]) -> list[Case]:
    codes = " ".join(f"{case.replacement} {case.answer.code}" for case in cases)
    print(f"{max(map(_seconds, cases)):5.2f} s  {cases[0].use}: {codes}", flush=True)
    return cases


def _cases(stage: Stage, use: Use, oddities: list[str]) -> Iterator[Case]:
    for replacement in (each for each in oddities if each not in use.apart):
        answer = stage.answer(use, replacement)
        for _ in range(TRIES - 1):
            if answer.seconds > ANSWER_SECONDS and answer.code is not None:
                answer = min(answer, stage.answer(use, replacement), key=lambda each: each.seconds)
        yield Case(use, replacement, answer, stage.wrong(use, replacement, answer) or _costly(answer))


def _costly(answer: Answer) -> str:
    if answer.seconds > ANSWER_SECONDS:
        return f"answered after {answer.seconds:.1f} s"
    return f"took {answer.peak_bytes >> 20} MB" if answer.peak_bytes > MAX_BYTES else ""


def _seconds(case: Case) -> float:
    return case.answer.seconds


def _bytes(case: Case) -> int:
    return case.answer.peak_bytes


if __name__ == "__main__":
    sys.exit(main())
