#!/usr/bin/env python3
"""Coverage-guided fuzzing of everything that reads what strangers write; prints what became of how many inputs.

    pip install atheris
    scripts/acceptance/fuzz.py store --inputs 100000
    scripts/acceptance/fuzz.py --list

One process per target, as libFuzzer wants it. It ends at the first fault of Collie (anything but its own errors), at
2 GiB of address space, or when one input takes longer than 600 s, and leaves the input in the folder for `--again`.
The targets and their seeds are those of the quick test (tests/support/hostile.py), as is the structural mutator
(tests/support/spoiling.py). libFuzzer mutates bytes and keeps the inputs that reach new code of Collie.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["collie"]):
    from tests.support.hostile import TARGETS, Target
    from tests.support.spoiling import spoiled

ADDRESS_SPACE_BYTES = 2 << 30
LONGEST_INPUT_BYTES = 64 << 10
STRUCTURAL_SHARE = 0.6


class Tally:
    """Counts what a target makes of inputs, and says so at the end."""

    def __init__(self, name: str, target: Target, wanted: int) -> None:
        self._name, self._target, self._wanted = name, target, wanted
        self._began = time.monotonic()
        self._seen = self._good = 0

    def take(self, data: bytes) -> None:
        """Give one input to the target."""
        self._good += self._target.read(data)
        self._seen += 1
        if self._seen % 5000 == 0 or self._seen == self._wanted:
            self.tell()

    def tell(self) -> None:
        """Print a line of JSON."""
        reported = {
            "target": self._name,
            "inputs": self._seen,
            "refused": self._seen - self._good,
            "faults": 0,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
            "seconds": round(time.monotonic() - self._began, 1),
        }
        print(json.dumps(reported), flush=True)


def main() -> int:
    """Fuzz the target that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", choices=list(TARGETS))
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="corpus and faults")
    parser.add_argument("--again", type=Path, metavar="FILE", help="give one input to the target, and nothing else")
    parser.add_argument("--list", action="store_true", help="list the targets")
    options = parser.parse_args()
    if options.list or options.target is None:
        print("\n".join(TARGETS))
        return 0
    folder = options.folder / options.target
    target = TARGETS[options.target](folder / "work")
    if options.again:
        print("good" if target.read(options.again.read_bytes()) else "refused")
        return 0
    return _fuzz(options.target, target, folder, options.inputs)


def _fuzz(name: str, target: Target, folder: Path, inputs: int) -> int:
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    tally = Tally(name, target, inputs)

    def mutated(data: bytes, longest: int, seed: int) -> bytes:
        rng = Random(seed)
        if rng.random() < STRUCTURAL_SHARE:
            return spoiled(data, rng)[:longest]
        return bytes(data[:1] + atheris.Mutate(data[1:], max(1, longest - 1)))

    arguments = [
        sys.argv[0],
        f"-runs={inputs}",
        f"-max_len={LONGEST_INPUT_BYTES}",
        "-timeout=600",
        "-rss_limit_mb=2048",
    ]
    arguments += [f"-artifact_prefix={folder}/", "-print_final_stats=1", "-verbosity=0", str(corpus)]
    atheris.Setup(arguments, tally.take, custom_mutator=mutated)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
