"""Time the start of the command line, in CPU seconds.

    python benchmarks/startup.py [--rounds 9]

Prints, for the help of each command and for the completion of a word, the least of some rounds, and beside it the least
of an empty program. Rounds are interleaved, so that other load hits all alike. `python -X importtime -m collie --help`
shows where the time goes. Asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys

HELP = ((), ("status",), ("space", "show"), ("search",), ("measure",))
WORDS = ("collie se", "collie status --p", "collie search --re")


def seconds(argv: list[str], **variables: str) -> float:
    """Run a program and return the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def completion(words: str) -> dict[str, str]:
    """Return the variables by which bash asks for the completion of a command line."""
    return {"_COLLIE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds

    collie = [sys.executable, "-m", "collie"]
    cases: dict[str, tuple[list[str], dict[str, str]]] = {"an empty program": ([sys.executable, "-c", ""], {})}
    cases |= {" ".join(("collie", *words, "--help")): ([*collie, *words, "--help"], {}) for words in HELP}
    cases |= {f"completion of `{words}`": (collie, completion(words)) for words in WORDS}
    least = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for name, (argv, variables) in cases.items():
            least[name] = min(least[name], seconds(argv, **variables))
    for name, least_seconds in least.items():
        print(f"{name:35} {least_seconds * 1000:4.0f} ms")


if __name__ == "__main__":
    main()
