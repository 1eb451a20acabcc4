"""FIFOs, devices, sockets, directories and links in the place of files: some of `scripts/acceptance/odd_files.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.odd_files import ALL, MAX_BYTES, ODDITIES, USES, Answer, Stage, Use

_KILL_SECONDS = 60.0
"""A busy machine is no hang; `scripts/acceptance/odd_files.py` looks at the time."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("odd") / "stage", _KILL_SECONDS)


def _selection() -> Iterator[tuple[Use, str]]:
    """Yield one command of each file that is read or written, each with the next oddity in turn."""
    oddities = [name for name in ODDITIES if name != "device node" or os.geteuid() == 0]
    seen: set[str] = set()
    for use in USES:
        if use.file not in seen and use.passed != ALL:
            seen.add(use.file)
            yield use, next(each for each in oddities[len(seen) % len(oddities) :] + oddities if each not in use.apart)


SELECTION = tuple(_selection())


@pytest.mark.parametrize(
    ("use", "replacement"), SELECTION, ids=[f"{use.file}-{replacement}" for use, replacement in SELECTION]
)
def test_what_is_no_file_is_one_message_at_once(use: Use, replacement: str, stage: Stage) -> None:
    answer = stage.answer(use, replacement)
    assert stage.wrong(use, replacement, answer) == ""
    assert answer.peak_bytes < MAX_BYTES


def test_every_oddity_is_tried() -> None:
    assert {replacement for _, replacement in SELECTION} >= set(ODDITIES) - {"device node"}
    assert len(SELECTION) > 40


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (Answer(None, "", _KILL_SECONDS, 0), "no answer"),
        (Answer(3, "collie: unforeseen OSError: hosts.yaml", 0.1, 0), "a fault"),
        (Answer(0, "", 0.1, 0), "exit 0 instead of 2"),
        (Answer(2, "collie: it cannot be read", 0.1, 0), "not one message"),
        (Answer(2, "collie: hosts.yaml\n" * 2, 0.1, 0), "not one message"),
        (Answer(2, "collie: hosts.yaml\n" + "more\n" * 9, 0.1, 0), "not one message"),
        (Answer(2, "collie: hosts.yaml: cannot be read: it is a FIFO, not a regular file\n", 0.1, 0), ""),
    ],
)
def test_a_violation_is_seen(answer: Answer, what: str, stage: Stage) -> None:
    assert stage.wrong(USES[0], "FIFO", answer).startswith(what)
    assert bool(what) == bool(stage.wrong(USES[0], "FIFO", answer))
