"""The log of a campaign, and warnings on standard error: what hosts say in them forges no line."""

from __future__ import annotations

import io
import logging
import re
from pathlib import Path

import pytest

from collie.cli.logs import logged_to
from collie.errors import StoreUnwritable
from collie.untrusted import LineFormatter, escaped

FORGED = "gone\n2026-01-01 00:00:00,000 INFO collie: forged\r\x1b[2J\u202e\u2028\x85\ttail"
RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")


def fail() -> None:
    raise ValueError(FORGED)


def test_a_host_forges_no_line_of_the_log(tmp_path: Path) -> None:
    log = logging.getLogger("collie.hosts")
    with logged_to(tmp_path / "log"):
        log.warning("host a: %s", FORGED)
        try:
            fail()
        except ValueError:
            log.exception("host %s", FORGED)
        log.info("done", stack_info=True)
    text = (tmp_path / "log" / "collie.log").read_text()
    lines = text.split("\n")
    records = [line for line in lines if RECORD.match(line)]
    assert [record.split(" ", 3)[2] for record in records] == ["WARNING", "ERROR", "INFO"]
    assert all(line.startswith("    ") for line in lines if line and line not in records)
    assert "forged" in records[0]
    assert "\\n2026-01-01 00:00:00,000 INFO collie: forged\\r\\x1b[2J\\u202e\\u2028\\x85\\ttail" in records[0]
    assert all(line.isprintable() for line in lines)


def test_a_traceback_that_another_handler_has_worded_is_indented_all_the_same() -> None:
    stream = io.StringIO()
    ours = logging.StreamHandler(stream)
    ours.setFormatter(LineFormatter("%(message)s"))
    logger = logging.Logger("apart")
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    logger.addHandler(ours)
    try:
        fail()
    except ValueError:
        logger.exception("failed")
    first, *rest = stream.getvalue().splitlines()
    assert first == "failed"
    assert all(line.startswith("    ") for line in rest)


def test_ordinary_text_stays_as_it_is() -> None:
    assert escaped("r\u00fcckw\u00e4rts \\ 50 % \u2192 b") == "r\u00fcckw\u00e4rts \\ 50 % \u2192 b"


def test_a_log_is_added_to(tmp_path: Path) -> None:
    for word in ("one", "two"):
        with logged_to(tmp_path / "log"):
            logging.getLogger("collie").info(word)
    assert [line[-3:] for line in (tmp_path / "log" / "collie.log").read_text().splitlines()] == ["one", "two"]


@pytest.mark.parametrize("link", ["log", "log/collie.log"])
def test_a_log_that_is_reached_through_a_link_is_refused(link: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "collie.log").write_text("as it was")
    campaign = tmp_path / "campaign"
    (campaign / link).parent.mkdir(parents=True)
    (campaign / link).symlink_to(outside if link == "log" else outside / "collie.log")
    with (
        pytest.raises(
            StoreUnwritable,
            match=r"collie\.log cannot be written: (.*/log: )?it is a symbolic link, which is not followed here",
        ),
        logged_to(campaign / "log"),
    ):
        pass
    assert (outside / "collie.log").read_text() == "as it was"
