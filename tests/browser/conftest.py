"""A campaign with its report, and a browser to read it in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from collie.cli.fleet import command as fleet
from collie.cli.gate import command as gate
from collie.cli.isolate import command as isolate
from collie.cli.report import command as report
from collie.cli.search import command as search
from tests.browser.chromium import PROGRAMS, Page, browser, program


@pytest.fixture(scope="session")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a short simulated campaign, with every kind of page.

    `report.html`, `against-campaign.html` against itself, `gate/report.html` with itself as the baseline, `fleet.html`.
    """
    path = tmp_path_factory.mktemp("report") / "campaign"
    for command, words in (
        (search, ["--budget", "120runs", "--seed", "1", "--campaign", str(path)]),
        (report, [str(path), "--against", str(path)]),
        (gate, ["--baseline", str(path), "--budget", "60runs", "--campaign", str(path / "gate"), "--exit-zero"]),
        (fleet, ["--count", "12", "--fault", "host-007=pcie_half_width", "-o", str(path / "fleet.html")]),
    ):
        done = CliRunner().invoke(command, words)
        assert not isinstance(done.exception, Exception), done.output  # a fleet with an odd host exits with 1
    return path


@pytest.fixture(scope="session")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a short search for what holds up a victim with a load."""
    path = tmp_path_factory.mktemp("report") / "isolated"
    words = ["--budget", "100runs", "--seed", "1", "--victim-load", "10Gbit", "--campaign", str(path)]
    done = CliRunner().invoke(isolate, words)
    assert not isinstance(done.exception, Exception), done.output
    return path


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page in headless Chromium; skips without it, or fails where browser tests must run."""
    found = program()
    if found is None:
        reason = f"no headless browser: none of {', '.join(PROGRAMS)} is installed (Debian: apt-get install chromium)"
        if os.environ.get("COLLIE_REQUIRE_BROWSER") == "1":
            pytest.fail(f"{reason}, and COLLIE_REQUIRE_BROWSER=1 says that it must be there")
        pytest.skip(reason)
    with browser(found, tmp_path_factory.mktemp("profile")) as opened:
        yield opened
