"""Derived subsystem files: what they inherit, and what they may not state in vain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collie.content.subsystems import load_subsystem
from collie.errors import ContentError
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SUBSYSTEM_FOLDER, SubsystemFile

NAMED = "name: mine\ntitle: mine\n"


def load(folder: Path, text: str) -> SubsystemFile:
    path = folder / "mine.yaml"
    path.write_text(text)
    return load_subsystem(str(path), SubsystemFile)


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(ContentError) as caught:
        load(folder, text)
    return str(caught.value)


def test_an_inherited_option_never_silently_replaces_what_a_file_states(tmp_path: Path) -> None:
    text = complaint(tmp_path, f"based_on: F-healthy\n{NAMED}pcie:\n  strict_ordering: true\n")
    options = (SUBSYSTEM_FOLDER / "F.yaml").read_text().splitlines()
    line = next(number for number, words in enumerate(options, 1) if "forced: {pcie:" in words)
    assert "mine.yaml:5: pcie.strict_ordering: true has no effect" in text
    assert "option 'forced' of setting relaxed_ordering is in force and makes it false" in text
    assert f"subsystems/F.yaml:{line})" in text
    assert 'settings.relaxed_ordering.value: "per_mkey" puts it in force' in text


@pytest.mark.parametrize(("option", "in_force"), [("per_mkey", True), ("forced", False)])
def test_a_file_that_chooses_the_option_itself_says_which_value_is_in_force(
    tmp_path: Path, option: str, in_force: bool
) -> None:
    chosen = f"settings: {{relaxed_ordering: {{value: {option}}}}}\n"
    mine = load(tmp_path, f"based_on: F-healthy\n{NAMED}pcie: {{strict_ordering: true}}\n{chosen}")
    assert mine.hardware.pcie.strict_ordering is in_force
    assert mine.with_settings({"relaxed_ordering": "per_mkey"}).hardware.pcie.strict_ordering


def test_a_file_that_states_the_options_change_itself_knows_of_it(tmp_path: Path) -> None:
    own = "settings: {minimum_mtu: {options: {'4096': {wire: {minimum_mtu: 2048}}}}}\n"
    mine = load(tmp_path, f"based_on: F-healthy\n{NAMED}wire: {{minimum_mtu: 512}}\n{own}")
    assert mine.hardware.wire.minimum_mtu == 2048


def test_the_value_in_force_may_be_stated(tmp_path: Path) -> None:
    mine = load(tmp_path, f"based_on: F-healthy\n{NAMED}wire: {{minimum_mtu: 4KiB}}\n")
    assert mine.hardware.wire.minimum_mtu == 4096


def test_a_value_that_every_option_replaces_has_no_effect_whoever_chooses(tmp_path: Path) -> None:
    setting = "settings: {width: {value: '8', options: {'8': {pcie: {lanes: 8}}, '4': {pcie: {lanes: 4}}}}}\n"
    text = complaint(tmp_path, f"based_on: F-healthy\n{NAMED}pcie: {{lanes: 16}}\n{setting}")
    assert re.search(r"mine\.yaml:4: pcie\.lanes: 16 has no effect.*makes it 8 \(.*mine\.yaml:5\)", text)
    assert "state it as settings.width.options.8.pcie.lanes, as no option of width leaves it as described" in text
    left = setting.replace("'4': {pcie: {lanes: 4}}", "'16': {}")
    assert load(tmp_path, f"based_on: F-healthy\n{NAMED}pcie: {{lanes: 16}}\n{left}").hardware.pcie.lanes == 8


def test_a_file_without_a_mechanism_does_not_claim_its_cure(tmp_path: Path) -> None:
    base = load_subsystem("F", SubsystemFile)
    mine = load(tmp_path, f"based_on: F\n{NAMED}without: [strict_ordering, read_slow_path]\n")
    assert base.settings["relaxed_ordering"].cures == (Mechanism.STRICT_ORDERING,)
    assert mine.settings["relaxed_ordering"].cures == mine.settings["minimum_mtu"].cures == ()
    assert mine.settings["firmware"].cures == base.settings["firmware"].cures


def test_a_claim_that_the_file_states_itself_stays(tmp_path: Path) -> None:
    own = "settings: {relaxed_ordering: {cures: [strict_ordering]}}\n"
    mine = load(tmp_path, f"based_on: F\n{NAMED}without: [strict_ordering]\n{own}")
    assert mine.settings["relaxed_ordering"].cures == (Mechanism.STRICT_ORDERING,)


def test_a_replaced_witness_keeps_the_inherited_cure(tmp_path: Path) -> None:
    witness = "witnesses: [{mechanism: strict_ordering, title: x, workload: {qps: 8}}]\n"
    mine = load(tmp_path, f"based_on: F\n{NAMED}without: [strict_ordering]\n{witness}")
    assert mine.settings["relaxed_ordering"].cures == (Mechanism.STRICT_ORDERING,)
    assert [one.trigger.qps for one in mine.witnesses if one.mechanism is Mechanism.STRICT_ORDERING] == [8]


def test_problems_of_a_base_and_of_the_file_are_told_together(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(f"based_on: F\n{NAMED}host: {{sockets: 9}}\nwithout: [nothing]\n")
    text = complaint(tmp_path, f"based_on: base.yaml\n{NAMED}pcie: {{lanes: 64}}\n")
    assert re.findall(r"(\w+)\.yaml:(\d): (\w+)", text) == [
        ("base", "4", "host"),
        ("base", "5", "without"),
        ("mine", "4", "pcie"),
    ]
