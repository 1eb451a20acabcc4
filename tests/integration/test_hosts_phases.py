"""Phases on pretended hosts: when a set-up is used again, and what ends it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from collie.errors import AgentError
from collie.ports import Measured, RunResult, SetupFailed, Unsupported, is_anew
from collie.workloads.setup import SetUp
from collie.workloads.workload import Direction, Opcode, QpType, Workload
from tests.integration.hosts_rig import Rig

MADE = Workload(qps=4, direction=Direction.BIDIRECTIONAL)
ON = SetUp(MADE)
WRITE, READ = Workload(), Workload(opcode=Opcode.READ, qps=2)
MAKING, PHASE = ["prepare", "connect"], ["phase", "start"]
REST = ["stop", "sampling"]


def stands(result: RunResult) -> bool:
    assert isinstance(result, Measured), result
    return result.stands


def steps(rig: Rig, host: str = "left") -> list[str]:
    return [do for do in rig.asked(host) if do != "hello"]


def test_one_set_up_is_made_for_all_phases(rig: Rig) -> None:
    assert stands(rig.testbed.measure(WRITE, 1, None, ON))
    assert stands(rig.testbed.measure(READ, 2, None, ON.after(WRITE)))
    assert steps(rig) == steps(rig, "right") == [*MAKING, *PHASE, *REST, *PHASE, *REST]
    rig.testbed.close()
    assert steps(rig)[-1] == "bye"


@pytest.mark.parametrize(
    "other",
    [SetUp(MADE), SetUp(MADE, (READ,)), SetUp(MADE.with_(qps=8), (WRITE,)), SetUp(MADE, (WRITE, WRITE))],
    ids=["first", "other history", "other capacity", "longer history"],
)
def test_another_set_up_is_never_taken_for_the_one_that_stands(rig: Rig, other: SetUp) -> None:
    assert stands(rig.testbed.measure(WRITE, 1, None, ON))
    assert stands(rig.testbed.measure(WRITE, 2, None, other))
    assert steps(rig) == [*MAKING, *PHASE, *REST, "destroy", *MAKING, *PHASE, *REST]


def test_a_run_on_its_own_ends_the_set_up_first_and_leaves_none(rig: Rig) -> None:
    assert stands(rig.testbed.measure(WRITE, 1, None, ON))
    assert not stands(rig.testbed.measure(WRITE, 2))
    assert steps(rig) == [*MAKING, *PHASE, *REST, "destroy", *MAKING, *PHASE, "stop", "destroy"]


def test_a_misfit_has_a_set_up_of_its_own(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    assert stands(rig.testbed.measure(WRITE, 1, None, ON))
    datagrams = Workload(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(64,))
    with caplog.at_level(logging.WARNING):
        assert not stands(rig.testbed.measure(datagrams, 2, None, ON.after(WRITE)))
    assert "run 2 is no phase of its set-up: it needs another set-up: qp_type differ" in caplog.text
    assert steps(rig)[len([*MAKING, *PHASE, *REST]) :] == ["destroy", *MAKING, *PHASE, "stop", "destroy"]


@pytest.mark.parametrize("behaviour", [{"drains": False}, {"failed_qps": 1}])
@pytest.mark.parametrize("host", ["left", "right"])
def test_what_has_not_come_to_rest_is_no_set_up_any_more_and_the_phase_keeps_its_result(
    rig: Rig, host: str, behaviour: dict[str, Any]
) -> None:
    rig.behave(host, **behaviour)
    result = rig.testbed.measure(WRITE, 1, None, ON)
    assert not stands(result)
    assert isinstance(result, Measured)
    assert result.measurement.stable
    assert steps(rig)[-1] == steps(rig, "right")[-1] == "destroy"


def test_a_stop_without_an_answer_ends_the_set_up(rig: Rig) -> None:
    error = {"kind": "timeout", "step": "stop", "message": "stop took longer than 10 s", "errno_name": None}
    rig.behave("right", fail={"stop": error})
    assert not stands(rig.testbed.measure(WRITE, 1, None, ON))
    assert steps(rig)[-1] == "destroy"


def test_a_phase_that_fails_ends_the_set_up(rig: Rig) -> None:
    error = {"kind": "setup", "step": "modify_qp RTR", "message": "no", "errno_name": "EINVAL"}
    rig.behave("right", fail={"phase": error})
    result = rig.testbed.measure(WRITE, 1, None, ON)
    assert isinstance(result, SetupFailed)
    assert result.cause == "modify_qp RTR EINVAL"
    assert steps(rig)[-1] == "destroy"


def test_a_set_up_that_the_device_refuses_says_nothing_about_a_workload_that_needs_less(rig: Rig) -> None:
    error = {"kind": "unsupported", "step": "limits", "message": "too many", "errno_name": None}
    rig.behave("right", fail={"prepare": error})
    assert isinstance(rig.testbed.measure(WRITE, 1, None, ON), Unsupported)
    assert steps(rig, "right") == ["prepare", "destroy"] * 2
    assert isinstance(rig.testbed.measure(MADE, 1, None, ON), Unsupported)
    assert steps(rig, "right") == ["prepare", "destroy"] * 3, "of its own set-up, one refusal is enough"


def test_an_engine_that_died_at_rest_is_noticed_before_the_next_phase(rig: Rig) -> None:
    rig.behave("left", engine_dies_at_rest=True)
    assert stands(rig.testbed.measure(WRITE, 1, None, ON))
    while rig.testbed._sessions["a"].client_under_way().engine_death is None:
        pass
    assert stands(rig.testbed.measure(READ, 2, None, ON.after(WRITE)))
    assert steps(rig).count("prepare") == 2


def test_an_agent_that_is_lost_takes_the_set_up_with_it(rig: Rig) -> None:
    assert stands(rig.testbed.measure(WRITE, 1, None, ON))
    rig.testbed._sessions["a"].abandon()
    on = ON.after(WRITE)
    repeated = rig.testbed.measure(READ, 2, None, on)
    assert is_anew(repeated), "nothing came before it on this set-up"
    assert steps(rig).count("prepare") == 2
    assert steps(rig, "right").count("prepare") == 2
    assert not is_anew(rig.testbed.measure(WRITE, 3, None, ON.after(READ)))
    assert steps(rig).count("prepare") == 2, "the new set-up stands"


def test_an_agent_that_ends_in_a_phase_has_the_run_repeated_on_a_new_set_up(rig: Rig) -> None:
    assert stands(rig.testbed.measure(WRITE, 1, None, ON))
    (rig.directory / "left" / "behaviour.json").write_text('{"die": "phase", "die_times": 1}')
    rig.testbed._sessions["a"].abandon()
    assert stands(rig.testbed.measure(READ, 2, None, ON.after(WRITE)))


def test_the_share_of_a_phase_may_be_one_direction_of_both(rig: Rig) -> None:
    both = rig.testbed.measure(WRITE.with_(direction=Direction.BIDIRECTIONAL), 1, None, ON)
    one = rig.testbed.measure(WRITE, 2, None, ON.after(WRITE.with_(direction=Direction.BIDIRECTIONAL)))
    assert isinstance(both, Measured)
    assert isinstance(one, Measured)
    assert [host.delivered_bps is not None for host in both.measurement.hosts] == [True, True]
    assert [host.delivered_bps is not None for host in one.measurement.hosts] == [False, True]


def test_a_lost_agent_twice_is_raised_as_without_phases(rig: Rig) -> None:
    rig.behave("left", die="phase")
    with pytest.raises(AgentError):
        rig.testbed.measure(WRITE, 1, None, ON)
