"""The pages of security and of faults: each promise names a test that exists, and each figure is that of the code."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from collie import untrusted
from collie.agent import loop, pulse, requests
from collie.agent.lines import LONGEST_LINE_BYTES as LONGEST_REQUEST_BYTES
from collie.bundle import archive
from collie.campaign import measure
from collie.content import catalogs, document
from collie.hosts import outage, protocol, run, session, testbed
from collie.inventory import file as inventory
from collie.report import view
from collie.scheduler import distributed, worker
from collie.ssh import connection, lines
from collie.store import codec, connections, reading, series, sqlite
from collie.wiring import standing
from collie.workloads import parse

ROOT = Path(__file__).parents[2]
PAGES = {
    path.name: path.read_text(encoding="utf-8")
    for path in (ROOT / "docs" / "explanation" / "security.md", ROOT / "docs" / "reference" / "faults.md")
}
GUARDS = "## Which test guards which promise"
_NAMED = re.compile(r"`((?:tests|collie|scripts)/[\w/.]+?\.py)(?:::(\w+))?`")


@cache
def _tests_of(path: Path) -> frozenset[str]:
    """Return the names of all tests of a file, those of its suites included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))


def _rows(text: str) -> list[list[str]]:
    """Return the cells of the rows of all tables, without their heads."""
    found = [re.split(r" *(?<!\\)\| *", line.strip("| ")) for line in text.splitlines() if line.startswith("|")]
    return [
        cells
        for before, cells in zip([[""], *found], found, strict=False)
        if not set(cells[0]) <= {"-", " "} and cells[0] not in {"fault", "promise", "trusted"}
    ]


NAMED = sorted({(page, *match.groups()) for page, text in PAGES.items() for match in _NAMED.finditer(text)}, key=str)


@pytest.mark.parametrize(("page", "path", "name"), NAMED)
def test_what_a_page_names_exists(page: str, path: str, name: str | None) -> None:
    assert (ROOT / path).is_file(), f"{page} names {path}"
    assert name is None or name in _tests_of(ROOT / path), f"{page} names {name} of {path}"


@pytest.mark.parametrize("page", PAGES)
def test_every_row_names_a_test(page: str) -> None:
    guards = _rows(PAGES[page].split(GUARDS)[1])
    assert len(guards) > 20
    for promise, tests in guards:
        assert all(match[2] for match in _NAMED.finditer(tests)), f"{page}: {promise}: name the test, not the file"
        assert _NAMED.search(tests), f"{page}: {promise}"


def test_every_fault_of_the_page_has_its_row() -> None:
    text = PAGES["faults.md"]
    told = _rows(text.split("## How that is known")[0])
    guarded = {cells[0] for cells in _rows(text.split(GUARDS)[1])}
    assert len(told) > 20
    assert [cells[0] for cells in told if cells[0] not in guarded] == []


def test_every_promise_about_an_attacker_names_a_test() -> None:
    items = re.findall(
        r"^\* (\*\*(?:Cannot|Is refused|Nothing|Reading)\b.*?)(?=^\* |^#|\Z)", PAGES["security.md"], re.M | re.S
    )
    assert len(items) > 10
    assert [item[:60] for item in items if "→" not in item or not _NAMED.search(item.split("→", 1)[1])] == []


MIB, KIB = 1 << 20, 1 << 10
FIGURES = [
    ("security.md", "A file is read up to 512 KiB", document.MAX_BYTES, 512 * KIB),
    ("security.md", "more than 20 levels", document._DEEPEST, 20),
    ("security.md", "at most 10,000 counters", catalogs._MAX_COUNTERS, 10_000),
    ("security.md", "a hosts file 4096 hosts", inventory.MAX_LISTED, 4096),
    ("security.md", "a request vector 1024 requests", parse._MAX_IN_TURN, 1024),
    ("security.md", "at most 128 bits", untrusted._MAX_MAGNITUDE, 1 << 128),
    ("security.md", "A line has at most 16 MiB", lines.LONGEST_LINE_BYTES, 16 * MIB),
    ("security.md", "the output of a command 16 MiB", lines.MAX_OUTPUT_BYTES, 16 * MIB),
    ("security.md", "wait for a reader 128 MiB", protocol.MAX_SAMPLED_BYTES, 128 * MIB),
    ("security.md", "the words of a failure 2000 characters", protocol.MAX_WORDS, 2000),
    ("security.md", "nesting 40 levels", untrusted._DEEPEST, 40),
    ("security.md", "up to 4 MiB", archive.MAX_CONTENT_BYTES, 4 * MIB),
    ("security.md", "a regular file of up to 8 MiB", archive.MAX_FILE_BYTES, 8 * MIB),
    ("security.md", "A row has at most 4 MiB", connections.MAX_ROW_BYTES, 4 * MIB),
    ("security.md", "and 100,000 values", codec.MAX_VALUES, 100_000),
    ("security.md", "the samples of a run 8 MiB", series.MAX_BYTES, 8 * MIB),
    ("security.md", "600,000 values and", series.MAX_VALUES, 600_000),
    ("security.md", "10,000 samples", series.MAX_SAMPLES, 10_000),
    ("security.md", "a campaign 100,000 runs", connections.MAX_RUNS, 100_000),
    ("security.md", "and 500 anomalies", sqlite._MAX_ANOMALIES, 500),
    ("security.md", "a copy 1 GiB", reading.MAX_COPIED_BYTES, 1 << 30),
    ("security.md", "half a million counters", view._MAX_READINGS, 500_000),
    ("security.md", "draws 50,000 samples", view._MAX_DRAWN_SAMPLES, 50_000),
    ("security.md", "of at most 16 MiB, with deadlines", LONGEST_REQUEST_BYTES, 16 * MIB),
    ("faults.md", "a lease of 6 s", session.LEASE_SECONDS, 6.0),
    ("faults.md", "says `died` after half a minute", standing._SILENCE_SECONDS, 30.0),
    ("faults.md", "idle agents for five minutes", worker._IDLE_SECONDS, 300.0),
    ("faults.md", "hangs for 15 s", sum(distributed._ANSWER_SECONDS), 15.0),
    ("faults.md", "prepare took longer than 15.0 s", run.PREPARE_SECONDS, 15.0),
    ("faults.md", "did not finish within 10 s", requests.DEFAULT_DEADLINE_SECONDS, 10.0),
    ("faults.md", "after four of them starts new agents", testbed.STALE_FAILURES, 4),
    ("faults.md", "waits for up to 45 s", outage.PATIENCE_SECONDS, 45.0),
    ("faults.md", "after five tries", measure._FAILURES_IN_A_ROW, 5),
    ("faults.md", "what could be run before, three times", measure._SETUP_TRIES, 3),
    ("faults.md", "repeats the run, once", testbed.AGENT_ATTEMPTS, 2),
    ("faults.md", "gives it up after 10 s, up to four times", connection.Timeouts().agent, 10.0),
    ("faults.md", "for a signature it has 60 s", connection.Timeouts().sign, 60.0),
    ("faults.md", "connects again, up to four times", 1 + len(session.START_PAUSES_SECONDS), 4),
    ("faults.md", "with 8.5 seconds of pauses", sum(session.START_PAUSES_SECONDS), 8.5),
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
    least, most = re.search(r"spoils (\d+) to (\d+) valid inputs", text).groups()  # type: ignore[union-attr]
    sizes = [int(size) for size in re.findall(r'": (\d+)', quick)]
    assert (int(least), int(most)) == (min(sizes), int(re.search(r"name, (\d+)\)", quick)[1]))  # type: ignore[index]
    long = (ROOT / "scripts" / "acceptance" / "fuzz.py").read_text(encoding="utf-8")
    assert "three fifths of the changes are to the structure" in text
    assert "STRUCTURAL_SHARE = 0.6" in long
    assert "2 GiB of address space, or 600 s for one input" in text
    assert "ADDRESS_SPACE_BYTES = 2 << 30" in long
    assert '"-timeout=600"' in long
