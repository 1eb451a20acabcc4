"""Set-ups: which workloads can be phases of one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from collie.workloads.setup import CAPACITIES, TRAFFIC, Changes, SetUp, changes_with, made_for_all, misfit
from collie.workloads.workload import FIELD_NAMES, Direction, Opcode, QpType, Workload
from tests.support.strategies import workloads

OTHER = {
    "direction": Direction.BIDIRECTIONAL,
    "loopback": True,
    "opcode": Opcode.READ,
    "more_opcodes": (Opcode.SEND,),
    "sge_split": (64,),
    "messages": (64, 128),
    "offered_bps": 10**9,
}
"""Values other than the defaults, where adding one gives none."""

PLAIN = Workload(sge_count=2, messages=(4096,))


def other_value(name: str) -> Any:
    """Return a value of a field that the plain workload does not have."""
    if name in OTHER:
        return OTHER[name]
    value = PLAIN.get(name)
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else next(each for each in type(value) if each is not value)


def test_a_set_up_with_a_shared_receive_queue_offers_one_shape_of_receives() -> None:
    shared = SetUp(PLAIN.with_(srq=True, opcode=Opcode.SEND, qps=8))
    own = SetUp(PLAIN.with_(opcode=Opcode.SEND, qps=8))
    for name, value in (("messages", (64,)), ("wqe_batch", 2), ("qps", 4), ("recv_wq_depth", 1), ("mrs_per_qp", 1)):
        assert own.offers(name, value), name
        assert shared.offers(name, value) is (value == shared.made_for.get(name)), name
    assert shared.offers("offered_bps", 10**9)
    assert shared.offers("send_wq_depth", 1)
    writes = SetUp(PLAIN.with_(srq=True, qps=8))
    assert writes.offers("messages", (64,)), "it posts no receives"


def test_a_set_up_without_access_rights_for_atomics_offers_none() -> None:
    plain, atomic = SetUp(PLAIN), SetUp(PLAIN.with_(opcode=Opcode.FETCH_ADD))
    for name, value in (("opcode", Opcode.CMP_SWP), ("more_opcodes", (Opcode.READ, Opcode.FETCH_ADD))):
        assert not plain.offers(name, value)
        assert atomic.offers(name, value)
    assert plain.offers("opcode", Opcode.READ)
    assert plain.offers("more_opcodes", (Opcode.READ,))


@st.composite
def in_agreement(draw: st.DrawFn) -> list[Workload]:
    """Workloads whose set-up dimensions are equal, and whose traffic is anything that needs the same set-up."""
    first = draw(workloads())
    all_of_them = [first]
    for other in draw(st.lists(workloads(), max_size=3)):
        workload = first.with_(**{name: other.get(name) for name in TRAFFIC})
        assume(is_atomic(workload) == is_atomic(first))
        if first.qp_type is not QpType.UD:
            workload = workload.with_(traffic_class=first.traffic_class, hop_limit=first.hop_limit)
        all_of_them.append(workload)
    if first.srq:
        shape = ("wqe_batch", "messages", "sge_count", "sge_split", "recv_wq_depth", "mrs_per_qp", "qps")
        all_of_them = [each.with_(**{name: first.get(name) for name in shape}) for each in all_of_them]
    assume(len({fetches(each) for each in all_of_them if each.loopback}) < 2)
    return all_of_them


def is_atomic(workload: Workload) -> bool:
    return any(opcode.is_atomic for opcode in workload.opcodes)


def fetches(workload: Workload) -> bool:
    return all(opcode.fetches for opcode in workload.opcodes)


@given(workloads())
def test_a_set_up_for_a_workload_alone_is_its_own(workload: Workload) -> None:
    assert misfit(workload, workload) is None
    assert SetUp(workload).is_own(workload)


@given(in_agreement())
def test_the_set_up_for_all_fits_each_that_agrees(agreeing: list[Workload]) -> None:
    made_for = made_for_all(agreeing)
    assert [misfit(each, made_for) for each in agreeing] == [None] * len(agreeing)
    for name in CAPACITIES:
        assert made_for.get(name) == max(each.get(name) for each in agreeing), name


@given(in_agreement())
def test_no_phase_uses_more_than_its_set_up_has(agreeing: list[Workload]) -> None:
    for workload, made_for in pairwise(agreeing):
        if misfit(workload, made_for) is None:
            assert all(workload.get(name) <= made_for.get(name) for name in CAPACITIES)
            assert all(SetUp(made_for).offers(name, workload.get(name)) for name in FIELD_NAMES)


@given(in_agreement())
def test_workloads_with_the_same_set_up_of_their_own_exchange_it(agreeing: list[Workload]) -> None:
    for one, other in pairwise(agreeing):
        assert SetUp(one).is_own(other) == SetUp(other).is_own(one)


@given(workloads(), workloads())
def test_a_set_up_serves_no_other_set_up_dimension(workload: Workload, made_for: Workload) -> None:
    if any(workload.get(name) != made_for.get(name) for name in FIELD_NAMES if changes_with(name) is Changes.SETUP):
        assert misfit(workload, made_for) is not None


@pytest.mark.parametrize("name", FIELD_NAMES)
def test_one_other_value_is_a_phase_as_the_verbs_api_says(name: str) -> None:
    larger = PLAIN.with_(**{name: other_value(name)})
    if changes_with(name) is Changes.SETUP:
        assert misfit(larger, PLAIN) == f"it needs another set-up: {name} differ"
        assert not SetUp(PLAIN).offers(name, larger.get(name))
    elif name in CAPACITIES:
        assert misfit(larger, PLAIN) == f"{name} is {larger.get(name)}, and the set-up has {PLAIN.get(name)}"
        assert misfit(PLAIN, larger) is None
        assert not SetUp(PLAIN).offers(name, larger.get(name))
        assert not SetUp(larger).is_own(PLAIN)
    elif name in ("direction", "loopback"):
        assert misfit(PLAIN, larger) is None
        assert "no queue pairs for" in (misfit(larger, PLAIN) or "")
        assert not SetUp(PLAIN).offers(name, larger.get(name))
    elif name in ("traffic_class", "hop_limit"):
        assert misfit(larger, PLAIN) == "RC queue pairs are connected with another traffic_class or hop_limit"
        assert not SetUp(PLAIN).offers(name, larger.get(name))
    else:
        assert SetUp(PLAIN).is_own(larger)
        assert SetUp(PLAIN).offers(name, larger.get(name))


def test_address_handles_of_ud_carry_the_path_of_each_phase() -> None:
    ud = PLAIN.with_(qp_type=QpType.UD, opcode=Opcode.SEND)
    assert SetUp(ud).is_own(ud.with_(traffic_class=104, hop_limit=1))
    assert SetUp(ud).offers("traffic_class", 104)
    uc = PLAIN.with_(qp_type=QpType.UC)
    assert misfit(uc.with_(hop_limit=1), uc) == "UC queue pairs are connected with another traffic_class or hop_limit"


def test_atomics_take_access_rights_that_other_traffic_does_not_have() -> None:
    atomic = PLAIN.with_(more_opcodes=(Opcode.FETCH_ADD,))
    wrong = "it needs another set-up: access rights for atomics differ"
    assert [misfit(atomic, PLAIN), misfit(PLAIN, atomic)] == [wrong, wrong]
    assert SetUp(atomic).is_own(PLAIN.with_(opcode=Opcode.CMP_SWP))


def test_a_shared_receive_queue_keeps_the_shape_of_its_receives() -> None:
    made_for = PLAIN.with_(opcode=Opcode.SEND, srq=True, qps=4, recv_wq_depth=256)
    assert misfit(made_for.with_(send_wq_depth=1, signal_every=4), made_for) is None
    for shape in ({"messages": (64,)}, {"sge_count": 1}, {"wqe_batch": 4}, {"qps": 1}, {"recv_wq_depth": 1}):
        assert "receives of another shape" in (misfit(made_for.with_(**shape), made_for) or ""), shape
        assert misfit(made_for.with_(**shape, opcode=Opcode.WRITE), made_for) is None, "it consumes no receive"
    separate = made_for.with_(srq=False)
    assert misfit(separate.with_(messages=(64,)), separate) is None


def test_loopback_needs_its_queue_pairs_on_the_host_that_sinks_the_payload() -> None:
    writes = PLAIN.with_(loopback=True)
    assert misfit(writes.with_(opcode=Opcode.SEND), writes) is None
    assert misfit(writes.with_(opcode=Opcode.READ), writes) == "the set-up has no queue pairs for loopback on this host"
    assert misfit(PLAIN.with_(opcode=Opcode.READ), writes) is None, "without loopback any host sinks"


def test_a_set_up_for_all_has_the_flows_of_any() -> None:
    both = made_for_all([PLAIN, PLAIN.with_(direction=Direction.BIDIRECTIONAL), PLAIN.with_(loopback=True)])
    assert both.direction is Direction.BIDIRECTIONAL
    assert both.loopback


def test_a_set_up_remembers_its_phases_in_order() -> None:
    first, second = PLAIN, PLAIN.with_(qps=1)
    assert SetUp(PLAIN).after(first).after(second) == SetUp(PLAIN, (first, second))
