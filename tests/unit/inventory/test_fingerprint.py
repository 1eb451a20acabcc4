"""Fingerprints: what counts as different, what is unknown, and how they are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collie.app import campaigns
from collie.app.hosts import diff
from collie.errors import HardwareChanged, StoreError, UsageError
from collie.inventory.fingerprint import Fingerprint, compare, difference
from collie.store import fingerprints
from collie.wiring import ADAPTERS


def host(**changes: Any) -> Fingerprint:
    values: dict[str, dict[str, Any]] = {
        "software": {"kernel": "6.1"},
        "nic": {"firmware": "22.36", "psid": "MT_1"},
        "pcie": {"address": "0000:3b:00.0", "acs": None, "width": 16},
    }
    for name, value in changes.items():
        category, _, field = name.partition("__")
        values.setdefault(category, {})[field] = value
    return Fingerprint(values)


def test_fields_come_in_the_order_in_which_people_look() -> None:
    assert list(host(novel__thing=1).fields) == [
        "nic.firmware", "nic.psid", "pcie.address", "pcie.acs", "pcie.width", "software.kernel", "novel.thing",
    ]  # fmt: skip


def test_equal_different_and_unknown_are_three_answers() -> None:
    found = difference(host(), host(nic__firmware="22.39", nic__psid=None, pcie__address="0000:5e:00.0"))
    assert [(each.field, each.a, each.b, each.unknown) for each in found] == [
        ("nic.firmware", "22.36", "22.39", False),
        ("nic.psid", "MT_1", None, True),
        ("pcie.address", "0000:3b:00.0", "0000:5e:00.0", False),
    ]
    assert [each.changes_results for each in found] == [True, True, False]
    assert difference(host(), host()) == (), "unknown on both sides says nothing"


def test_a_field_that_one_side_has_not_heard_of_is_unknown_there() -> None:
    [found] = difference(host(), host(novel__thing=1))
    assert (found.field, found.a, found.b, found.changes_results) == ("novel.thing", None, 1, True)


def test_the_digest_names_what_changes_results_and_nothing_else() -> None:
    assert host().digest == host(pcie__address="0000:5e:00.0").digest
    assert host().digest != host(pcie__width=8).digest
    assert host().digest != host(nic__psid=None).digest


def test_hosts_are_compared_by_name_else_in_order_and_nobody_is_left_out() -> None:
    one, other = host(), host(pcie__width=8)
    [first, second] = compare({"x": one, "y": other}, {"y": other, "x": one})
    assert not first.differences
    assert not second.differences
    [found] = compare({"x": one}, {"z": other})
    assert (found.a, found.b) == ("x", "z")
    assert found.changes_results
    alone = compare({"x": one, "y": one}, {"z": one})[1]
    assert (alone.a, alone.b) == ("y", "nobody")
    assert all(each.unknown for each in alone.differences)


def test_a_device_of_a_host_has_a_file_of_its_own(tmp_path: Path) -> None:
    taken = {"n/a_b": host(), "n_a/b": host(pcie__width=8), "n_a_b": host(pcie__width=4)}
    fingerprints.save(tmp_path, taken, "2026-01-01T00:00:00Z")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n+a_b.json", "n_a+b.json", "n_a_b.json"]
    assert fingerprints.load(tmp_path) == taken


def test_what_is_kept_is_read_again_and_a_change_stands_beside_it(tmp_path: Path) -> None:
    assert fingerprints.load(tmp_path) == {}
    # Names with dots and digits, one like the second file of another; host A behind host B in the alphabet.
    began = {"node.2": host(), "10.0.0.1": host(pcie__width=8), "node": host(), "node.2.2": host()}
    fingerprints.save(tmp_path, began, "2026-01-01T00:00:00Z")
    assert list(fingerprints.load(tmp_path)) == list(began)
    assert fingerprints.load(tmp_path) == began
    changed = {**began, "node.2": host(nic__firmware="22.39")}
    assert fingerprints.changes(tmp_path) == ()
    fingerprints.save(tmp_path, changed, "2026-01-02T00:00:00Z")
    assert fingerprints.load(tmp_path) == changed
    (change,) = fingerprints.changes(tmp_path)
    assert [str(each) for each in change.differences] == ["nic.firmware: 22.36 and 22.39"]
    assert fingerprints.read(tmp_path / "node.2.json").fingerprint == host()
    assert fingerprints.read(tmp_path / "node.2@2.json").fingerprint == host(nic__firmware="22.39")


def test_any_name_of_a_subsystem_makes_a_file(tmp_path: Path) -> None:
    fingerprints.save(tmp_path, {"our NIC/2": host()}, "2026-01-01T00:00:00Z")
    assert [path.name for path in tmp_path.iterdir()] == ["our_NIC+2.json"]
    assert fingerprints.load(tmp_path) == {"our NIC/2": host()}


@pytest.mark.parametrize("text", ["", "[]", '{"schema_version": 1}', '{"fingerprint": 3}'])
def test_a_file_that_is_no_fingerprint_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(StoreError, match=r"x\.json holds no fingerprint"):
        fingerprints.read(tmp_path / "x.json")


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
    tmp_path: Path, caplog: pytest.LogCaptureFixture
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
    campaigns.begin(ADAPTERS, unlike, tmp_path / "d").close()
    assert "were found on unlike hosts" in caplog.text
    campaigns.resume(ADAPTERS, directory, "3runs", accept_changes=True).close()
    campaigns.resume(ADAPTERS, directory, "3runs").close()
    assert (directory / "fingerprint" / "F@2.json").exists()
