"""Comparison of hardware by `hosts diff` and on resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.app import campaigns
from collie.app.hosts import diff
from collie.errors import HardwareChanged, UsageError
from collie.store import fingerprints
from collie.wiring import ADAPTERS
from tests.support.fingerprints import host


def test_diff_takes_files_and_campaigns_and_says_what_it_cannot_compare(tmp_path: Path) -> None:
    for name, widths in (("one", (16, 16)), ("two", (16, 8))):
        hosts = {f"lab-{letter}": host(pcie__width=width) for letter, width in zip("ab", widths, strict=True)}
        fingerprints.save(tmp_path / name / "fingerprint", hosts, "2026-01-01T00:00:00Z")
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert [found.changes_results for found in diff(ADAPTERS, one, two, None)] == [False, True]
    file = f"{two}/fingerprint/lab-b.json"
    [found] = diff(ADAPTERS, one, file, None)
    assert (found.a, found.b, found.changes_results) == ("lab-b", "lab-b", True)
    [found] = diff(ADAPTERS, f"{one}/fingerprint/lab-a.json", file, None)
    assert (found.a, found.b) == ("lab-a", "lab-b")
    with pytest.raises(UsageError, match="--hosts"):
        diff(ADAPTERS, one, "lab-a", None)
    with pytest.raises(UsageError, match="is it a campaign"):
        diff(ADAPTERS, str(tmp_path), one, None)


def test_a_campaign_goes_on_only_with_the_hardware_it_began_with(
    tmp_path: Path,
) -> None:
    from collie.campaign.choice import SearchChoice, TestbedChoice
    from collie.testing.fakes import ListSink

    directory = tmp_path / "c"
    opened = campaigns.begin(ADAPTERS, SearchChoice(TestbedChoice(), budget="2runs"), directory)
    opened.run(ListSink())
    opened.close()
    kept = directory / "fingerprint" / "F.json"
    kept.write_text(kept.read_text().replace('"pfc": "enabled"', '"pfc": "disabled"'))
    with pytest.raises(HardwareChanged, match=r"F: subsystem\.pfc: disabled and enabled(.|\n)*--accept-changes"):
        campaigns.resume(ADAPTERS, directory, "3runs")
    unlike = SearchChoice(TestbedChoice(), budget="2runs", known=str(directory))
    begun = campaigns.begin(ADAPTERS, unlike, tmp_path / "d")
    begun.close()
    assert begun.choice.known_elsewhere
    campaigns.resume(ADAPTERS, directory, "3runs", accept_changes=True).close()
    campaigns.resume(ADAPTERS, directory, "3runs").close()
    assert (directory / "fingerprint" / "F@2.json").exists()
