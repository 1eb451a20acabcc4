"""The pages of security, safety and faults: each promise has a test that exists, each figure is that of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from collie import errors, plain, untrusted
from collie.agent import loop, pulse, requests
from collie.agent.lines import LONGEST_LINE_BYTES as LONGEST_REQUEST_BYTES
from collie.app import status
from collie.bundle import archive
from collie.campaign import measure
from collie.content import catalogs, document
from collie.detect import measurement
from collie.hosts import idle, phase, protocol, session, testbed
from collie.hosts.timing import DEFAULT_TIMING
from collie.inventory import file as inventory
from collie.inventory.safety import REAL_HOSTS
from collie.report.html import view
from collie.scheduler import distributed, worker
from collie.ssh import connection, lines
from collie.store import codec, connections, reading, series, sqlite
from collie.workloads import parse

ROOT = Path(__file__).parents[2]
_PLACES = ("explanation/security.md", "explanation/safety.md", "reference/faults.md", "evidence/faults.md")
PAGES = {
    place.removeprefix("explanation/").removeprefix("reference/"): (ROOT / "docs" / place).read_text(encoding="utf-8")
    for place in _PLACES
}
GUARDS = yaml.safe_load((ROOT / "tests" / "content" / "promises.yaml").read_text(encoding="utf-8"))
"""The tests of each promise, by page and section."""
TRUST = "Trust"
"""This section lists parties. Its promises stand in its text."""
HEADS = {"fault", "limit", "event"}
"""First words of tables."""
_NAMED = re.compile(r"`((?:tests|collie|scripts)/[\w/.]+?\.(?:py|yaml))\b")


@cache
def _tests_of(path: Path) -> frozenset[str]:
    """Return the names of all tests of a file, those of its suites included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))


def _promises(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield the bold beginnings of items and the faults of tables: page, heading of the section, and words."""
    for section in re.split(r"^#+ ", PAGES[page], flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        for words in re.findall(r"^\* \*\*(.+?)\*\*", body, re.MULTILINE):
            yield page, heading, words
        for line in body.splitlines():
            first = re.split(r" *(?<!\\)\| *", line.strip("| "))[0]
            if line.startswith("|") and heading != TRUST and first not in HEADS and not set(first) <= {"-", " "}:
                yield page, heading, first


PROMISED = [each for page in GUARDS for each in _promises(page)]
GUARDED = [
    (page, heading, promise, tests)
    for page, sections in GUARDS.items()
    for heading, promises in sections.items()
    for promise, tests in promises.items()
]


def test_every_promise_has_its_tests() -> None:
    guarded = {(page, heading, promise) for page, heading, promise, _ in GUARDED}
    assert len(PROMISED) > 60
    assert [each for each in PROMISED if each not in guarded] == []


@pytest.mark.parametrize(("page", "heading", "promise", "tests"), GUARDED, ids=[each[2] for each in GUARDED])
def test_every_test_of_a_promise_exists(page: str, heading: str, promise: str, tests: list[str]) -> None:
    assert heading == TRUST or (page, heading, promise) in PROMISED, "the page has changed: change its promise, too"
    assert tests
    for test in tests:
        path, _, name = test.partition("::")
        assert name in _tests_of(ROOT / path), test


@pytest.mark.parametrize("page", PAGES)
def test_a_file_that_a_page_names_exists(page: str) -> None:
    assert [path for path in _NAMED.findall(PAGES[page]) if not (ROOT / path).is_file()] == []


MIB, KIB = 1 << 20, 1 << 10
FIGURES = [
    ("security.md", "A file is read up to 512 KiB", document.MAX_BYTES, 512 * KIB),
    ("security.md", "more than 20 levels", document._DEEPEST, 20),
    ("security.md", "at most 10,000 counters", catalogs._MAX_COUNTERS, 10_000),
    ("security.md", "a hosts file 4096 hosts", inventory.MAX_LISTED, 4096),
    ("security.md", "a request vector 1024 requests", parse._MAX_IN_TURN, 1024),
    ("security.md", "at most 128 bits", plain._MAX_MAGNITUDE, 1 << 128),
    ("security.md", "A line has at most 16 MiB", lines.LONGEST_LINE_BYTES, 16 * MIB),
    ("security.md", "the output of a command 16 MiB", lines.MAX_OUTPUT_BYTES, 16 * MIB),
    ("security.md", "unread samples 128 MiB", protocol.MAX_SAMPLED_BYTES, 128 * MIB),
    ("security.md", "an error text 2000 characters", protocol.MAX_WORDS, 2000),
    ("security.md", "nesting 40 levels", untrusted._DEEPEST, 40),
    ("security.md", "one member of up to 4 MiB", archive.MAX_CONTENT_BYTES, 4 * MIB),
    ("security.md", "a regular file of up to 8 MiB", archive.MAX_FILE_BYTES, 8 * MIB),
    ("security.md", "A row has at most 4 MiB", connections.MAX_ROW_BYTES, 4 * MIB),
    ("security.md", "and 100,000 values", codec.MAX_VALUES, 100_000),
    ("security.md", "The samples of a run have at most 8 MiB", series.MAX_BYTES, 8 * MIB),
    ("security.md", "600,000 values and", series.MAX_VALUES, 600_000),
    ("security.md", "10,000 samples", series.MAX_SAMPLES, 10_000),
    ("security.md", "a campaign 100,000 runs", connections.MAX_RUNS, 100_000),
    ("security.md", "and 500 anomalies", sqlite._MAX_ANOMALIES, 500),
    ("security.md", "a copy 1 GiB", reading.MAX_COPIED_BYTES, 1 << 30),
    ("security.md", "half a million counters", view._MAX_READINGS, 500_000),
    ("security.md", "at most 50,000 samples", view._MAX_DRAWN_SAMPLES, 50_000),
    ("security.md", "lines of at most 16 MiB, with deadlines", LONGEST_REQUEST_BYTES, 16 * MIB),
    ("faults.md", "a lease of 6 s", session.LEASE_SECONDS, 6.0),
    ("faults.md", "shows `died` after half a minute", status._SILENCE_SECONDS, 30.0),
    ("faults.md", "on the same machine after 6 s", status._LATE_SECONDS, 6.0),
    ("faults.md", "idle agents for five minutes", worker._IDLE_SECONDS, 300.0),
    ("faults.md", "hangs for 15 s", sum(distributed.Patience().answer_seconds), 15.0),
    ("faults.md", "prepare took longer than 15.0 s", phase.PREPARE_SECONDS, 15.0),
    ("faults.md", "did not finish within 10 s", requests.DEFAULT_DEADLINE_SECONDS, 10.0),
    ("faults.md", "starts new agents after four failures", testbed.STALE_FAILURES, 4),
    ("faults.md", "Waits for up to 45 s", DEFAULT_TIMING.recovery_seconds, 45.0),
    ("faults.md", "After five, it tries workloads", measure._FAILURES_IN_A_ROW, 5),
    ("faults.md", "that ran before, three times", measure._SETUP_TRIES, 3),
    ("faults.md", "repeats the run, once", testbed.AGENT_ATTEMPTS, 2),
    ("faults.md", "waits 10 s, up to four times", connection.Timeouts().agent, 10.0),
    ("faults.md", "A signature has 60 s", connection.Timeouts().sign, 60.0),
    ("faults.md", "reconnects, up to four times", 1 + len(DEFAULT_TIMING.start_pauses_seconds), 4),
    ("faults.md", "with 8.5 seconds of pauses", sum(DEFAULT_TIMING.start_pauses_seconds), 8.5),
    ("security.md", "A message shows at most 50 problems", errors.MAX_PROBLEMS, 50),
    ("safety.md", "| `pause_ms_per_second` | 200 ms |", REAL_HOSTS.pause_per_second, 0.2),
    ("safety.md", "| `pause_seconds_per_campaign` | 120 s |", REAL_HOSTS.pause_per_campaign, 120.0),
    ("safety.md", "shorter than 150 ms in total", measurement.START_UP_PAUSE_SECONDS, 0.15),
    ("safety.md", "watches the ports for one second", DEFAULT_TIMING.idle_seconds, 1.0),
    ("safety.md", "exceed 100 per second", idle.BACKGROUND_PACKETS, 100.0),
    ("safety.md", "lease: 6 s without a line", session.LEASE_SECONDS, 6.0),
    ("safety.md", "ends after 7 s without its pulse", pulse.SILENCE_SECONDS, 7.0),
    ("safety.md", "A ping every 1.5 s", protocol.PING_SECONDS, 1.5),
    ("safety.md", "longer than half a second", loop.LATE_SECONDS, 0.5),
    ("safety.md", "repeats the count for up to 15 s", DEFAULT_TIMING.release_seconds, 15.0),
]


@pytest.mark.parametrize(("page", "words", "is_so", "said"), FIGURES, ids=[each[1] for each in FIGURES])
def test_a_figure_of_a_page_is_that_of_the_code(page: str, words: str, is_so: float, said: float) -> None:
    assert words in " ".join(PAGES[page].split()), "the page has changed: change its figure here, too"
    assert is_so == said


def test_hosts_are_silent_within_ten_seconds() -> None:
    text = " ".join(PAGES["faults.md"].split())
    assert "hosts are silent and without queue pairs within 10 s" in text
    assert "An agent whose controller is gone ends within 10 s" in PAGES["security.md"]
    # The lease runs out, the engine has its grace, and what is left of it is killed; an agent that stands still has no
    # lease to lose, and its engine looks for its pulse.
    assert session.LEASE_SECONDS + loop.GRACE_SECONDS + loop.FAREWELL_SECONDS <= 10.0
    assert pulse.SILENCE_SECONDS + pulse._LOOK_SECONDS <= 10.0


def test_the_fuzz_suite_is_as_large_as_it_is_said_to_be() -> None:
    text = " ".join(PAGES["security.md"].split())
    quick = (ROOT / "tests" / "property" / "test_hostile.py").read_text(encoding="utf-8")
    least, most = re.search(r"corrupts (\d+) to (\d+) valid inputs", text).groups()  # type: ignore[union-attr]
    sizes = [int(size) for size in re.findall(r'": (\d+)', quick)]
    assert (int(least), int(most)) == (min(sizes), int(re.search(r"name, (\d+)\)", quick)[1]))  # type: ignore[index]
    long = (ROOT / "scripts" / "acceptance" / "fuzz.py").read_text(encoding="utf-8")
    assert "Three fifths of its changes alter the structure" in text
    assert "STRUCTURAL_SHARE = 0.6" in long
    assert "2 GiB of address space or 600 s" in text
    assert "ADDRESS_SPACE_BYTES = 2 << 30" in long
    assert '"-timeout=600"' in long
