"""The check of a subsystem file's claims. Files are variants of F and F-healthy with one fault each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from collie.cli.validation import validation_lines
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.simulator.audit import audit
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SubsystemFile, Witness
from collie.workloads.workload import QpType

SPACE = load_space("nsdi22")
SMALL = load_space("soft-roce")
F = load_subsystem("F", SubsystemFile)
HEALTHY = load_subsystem("F-healthy", SubsystemFile)
ORDERING = Mechanism.STRICT_ORDERING
FEW = 300


def variant(file: SubsystemFile, part: str, **changes: Any) -> SubsystemFile:
    return SubsystemFile.model_validate({**file.model_dump(), part: {**getattr(file, part).model_dump(), **changes}})


def without(mechanism: Mechanism) -> SubsystemFile:
    left = tuple(one for one in F.witnesses if one.mechanism is not mechanism)
    return F.model_copy(update={"witnesses": left})


def test_a_mechanism_that_shows_without_a_witness_is_wrong_and_comes_with_one() -> None:
    checked = audit(without(ORDERING), SPACE, FEW)
    (shown,) = checked.unplanned
    assert shown.mechanism is ORDERING
    assert not shown.planted
    assert shown.credited > 0.01
    assert shown.example is not None
    witness = Witness(mechanism=ORDERING, title="as proposed", workload=shown.example)
    mended = F.model_copy(update={"witnesses": (*without(ORDERING).witnesses, witness)})
    again = audit(mended, SPACE, FEW)
    assert again.unplanned == ()
    assert again.problems == 0
    assert [check.credited for check in again.witnesses if check.mechanism is ORDERING] == [ORDERING]


def test_an_example_is_as_plain_as_it_can_be() -> None:
    (shown,) = audit(without(ORDERING), SPACE, FEW).unplanned
    assert shown.example is not None
    assert len(shown.example) < len(SPACE.dimensions) / 2


def test_a_file_without_witnesses_claims_that_nothing_shows() -> None:
    assert audit(HEALTHY, SPACE, FEW).problems == 0
    sick = variant(HEALTHY, "loopback", rate_limited=False)
    assert [shown.mechanism for shown in audit(sick, SPACE, FEW).unplanned] == [Mechanism.LOOPBACK_INCAST]


def test_a_witness_that_is_normal_has_nothing_to_cure() -> None:
    checked = audit(F.with_settings({"firmware": "22.31"}), SPACE, FEW)
    vacuous = [check for check in checked.cures if check.vacuous]
    assert [check.setting for check in vacuous] == ["firmware"]
    assert all(check.options == () and check.problem is None for check in vacuous)
    (line,) = (each for each in validation_lines("F", checked, "nsdi22", survey=False) if " firmware" in each)
    assert line.startswith("  skip   firmware cures acknowledgement_blocking: its witness is not anomalous with the op")


def test_a_survey_counts_every_anomalous_point_once() -> None:
    survey = audit(F, SPACE, FEW).survey
    assert survey == audit(F, SPACE, FEW).survey
    assert survey.points == FEW
    assert sum(shown.credited for shown in survey.mechanisms) == pytest.approx(survey.anomalous)
    assert all(shown.shows >= shown.credited for shown in survey.mechanisms)
    assert any(shown.shows > shown.credited for shown in survey.mechanisms)
    assert all(shown.planted for shown in survey.mechanisms)
    assert all(0 < shown.median_severity <= 1 for shown in survey.mechanisms if shown.credited)
    assert len(survey.mechanisms) > 3


def test_a_cure_without_a_witness_is_wrong() -> None:
    cures = {(check.setting, check.mechanism): check for check in audit(without(ORDERING), SPACE, FEW).cures}
    lacking = cures.pop(("relaxed_ordering", ORDERING))
    assert not lacking.planted
    assert lacking.problem is not None
    assert "take it out of settings.relaxed_ordering.cures, or add a witness" in lacking.problem
    assert all(check.problem is None and check.planted for check in cures.values())


def test_a_port_that_no_plain_traffic_fills_is_wrong_once() -> None:
    checked = audit(variant(HEALTHY, "engine", placement_bps=40e9), SPACE, FEW)
    (wrong,) = (check for check in checked.plain if check.problem)
    assert wrong.limited_by.startswith("placement of host")
    assert wrong.shortfall > 0.5
    assert wrong.pause_ratio > 0.5
    assert all(check.note for check in checked.plain if check is not wrong)
    assert checked.problems == 1
    assert checked.survey.uncredited == checked.survey.anomalous > 0


@pytest.mark.parametrize(
    ("part", "changes", "limit", "sick"),
    [
        ("reads", {"requester_slow_packets_per_second": 100_000}, "receive engine", {QpType.RC}),
        (
            "datagram_receives",
            {"size_bytes": 4096, "window_wqes_per_queue": 64, "fetch_seconds": 9e-6},
            "receives that",
            {QpType.UD},
        ),
    ],
)
def test_sick_plain_traffic_is_noted_while_other_traffic_is_well(
    part: str, changes: Mapping[str, Any], limit: str, sick: set[QpType]
) -> None:
    plain = audit(variant(F, part, **changes), SPACE, FEW).plain
    noted = [check for check in plain if check.note]
    assert all(check.limited_by.startswith(limit) for check in noted)
    assert {check.qp_type for check in noted} == sick
    assert len(noted) < len(plain)
    assert all(check.problem is None for check in plain)


def test_a_narrow_slot_is_no_fault_of_the_file() -> None:
    checked = audit(variant(HEALTHY, "pcie", lanes=4), SPACE, FEW)
    assert checked.plain
    assert all(check.problem is None and abs(check.shortfall) < 0.05 for check in checked.plain)


def test_what_the_space_does_not_hold_is_neither_right_nor_wrong() -> None:
    checked = audit(F, SMALL, FEW)
    outside = [check for check in checked.witnesses if check.outside]
    assert 0 < len(outside) < len(checked.witnesses)
    assert checked.problems == 0
    assert all(check.problem is None and check.symptom is None for check in outside)
    mechanisms = {check.mechanism for check in outside}
    assert all((check.outside is not None) is (check.mechanism in mechanisms) for check in checked.cures)
    assert checked.outside == len(outside) + sum(check.outside is not None for check in checked.cures)


def test_what_no_device_can_run_is_wrong_in_every_space() -> None:
    witness = Witness(mechanism=ORDERING, title="x", workload={"qp_type": "UD", "opcode": "READ"})
    impossible = F.model_copy(update={"witnesses": (*without(ORDERING).witnesses, witness)})
    for space in (SPACE, SMALL):
        (check,) = (check for check in audit(impossible, space, FEW).witnesses if check.mechanism is ORDERING)
        assert check.problem is not None
        assert check.problem.startswith("cannot run:")
        assert check.outside is None
