"""Faults of simulated hosts, as the command line writes them."""

from __future__ import annotations

import pytest

from collie.errors import UsageError
from collie.fleet.fault import Fault, FaultKind


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("pfc_off", Fault(FaultKind.PFC_OFF)),
        ("bit_errors", Fault(FaultKind.BIT_ERRORS)),
        ("bit_errors:1e-11", Fault(FaultKind.BIT_ERRORS, 1e-11)),
        ("busy_memory:0.99", Fault(FaultKind.BUSY_MEMORY, 0.99)),
    ],
)
def test_a_fault_is_its_kind_and_its_size(text: str, fault: Fault) -> None:
    assert Fault.parse(text) == fault


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("busy_memory:0", "it is above 0 and below 1"),
        ("busy_memory:1", "it is above 0 and below 1"),
        ("bit_errors:-0.5", "it is above 0 and below 1"),
        ("bit_errors:nan", "it is above 0 and below 1"),
        ("bit_errors:", "is no size of bit_errors"),
        ("pfc_off:0.5", "comes in one size"),
        ("flood", "there is no fault 'flood'"),
    ],
)
def test_a_fault_that_does_not_exist_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Fault.parse(text)
