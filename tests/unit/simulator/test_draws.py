"""Random workloads of a space, as a subsystem supports them."""

from __future__ import annotations

import pytest

from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.errors import UsageError
from collie.simulator.capabilities import unsupported_reason
from collie.simulator.draws import draw
from collie.simulator.subsystem import SubsystemFile

SPACE = load_space("nsdi22")
B = load_subsystem("B", SubsystemFile).hardware


def test_draws_are_workloads_of_the_space_that_the_subsystem_supports() -> None:
    drawn = draw(B, SPACE, 200)
    assert drawn == draw(B, SPACE, 200)
    assert len(set(drawn)) == 200, "without a GPU no draw is wasted on one"
    assert not any(SPACE.complaints(workload) or unsupported_reason(B, workload) for workload in drawn)


def test_combinations_that_the_model_lacks_are_left_out() -> None:
    drawn = draw(B, load_space("soft-roce"), 200)
    assert len(drawn) > 0
    assert not any(unsupported_reason(B, workload) for workload in drawn)


def test_a_space_without_a_supported_workload_is_refused() -> None:
    alone = load_space("soft-roce").narrowed({"remote": False}, {})
    with pytest.raises(UsageError, match="subsystem B supports no workload of space soft-roce: remote is false"):
        draw(B, alone, 1)
