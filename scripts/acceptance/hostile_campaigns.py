#!/usr/bin/env python3
"""Ask every command that reads a campaign about hundreds that somebody spoiled on purpose.

    .venv/bin/python scripts/acceptance/hostile_campaigns.py --directories 300 --seed 1

Each kind of harm strikes alone and in every schema, then mixtures of two and three, some while a process writes the
campaign. After each command: nothing in the directory and beside it is changed (the log's index of a live campaign
excepted), no copy is left behind, it took less than 300 MiB and 10 s, and it ended with a documented exit code and
without a traceback. Prints a Markdown table; exit code 1 on any violation.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

from collie.interrupts import install_handlers
from tests.support.hostile_commands import Answers, Siege, preload


def main() -> int:
    """Strike, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directories", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="WORD", default="", help="strike only with what has this in its name")
    options = parser.parse_args()
    install_handlers()
    preload()
    with tempfile.TemporaryDirectory(prefix="collie-siege-") as folder:
        siege = Siege(Path(folder) / "siege", Random(options.seed))
        for names, version, live in siege.plan(options.directories):
            if options.only in " + ".join(names):
                siege.strike(names, version, live=live)
                print(f"\r{siege.directories} directories", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    violations = [each for reported in siege.answers.values() for each in reported.violations]
    print(f"{siege.directories} directories, {len(violations)} violations\n")
    print("| command | answers by exit code | peak, MiB | slowest, s | violations |\n|---|---|---|---|---|")
    for command, reported in siege.answers.items():
        print(
            f"| `{command}` | {_codes(reported)} | {reported.peak_bytes >> 20} | {reported.slowest_seconds:.1f} "
            f"| {len(reported.violations)} |"
        )
    for each in violations:
        print(f"- {each}")
    return 1 if violations else 0


def _codes(reported: Answers) -> str:
    known = sorted(reported.codes.items(), key=lambda item: -1 if item[0] is None else item[0])
    return ", ".join(f"{'killed' if code is None else code}: {count}" for code, count in known)


if __name__ == "__main__":
    sys.exit(main())
