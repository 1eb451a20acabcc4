"""Connecting by RDMA-CM, over a librdmacm that connects within the process."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import CDLL, POINTER, c_uint8
from pathlib import Path

import pytest

from collie.agent import rdma_cm
from collie.agent.cma_abi import ConnParam
from collie.agent.faults import AgentFault
from collie.agent.rdma_cm import Address, ConnectionManager, Half
from tests.support.fake_libraries import compiled

ADDRESS = Address("0000:0000:0000:0000:0000:ffff:0a00:0001", "lo")
MORE_THAN_AT_ONCE = rdma_cm.MAX_DIALLING + 8


@pytest.fixture(scope="module")
def librdmacm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("librdmacm", tmp_path_factory.mktemp("fake"))


@pytest.fixture
def manager(librdmacm: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectionManager]:
    """A manager over the library, which must have nothing left after the test."""
    monkeypatch.setattr(rdma_cm, "LIBRARY", str(librdmacm))
    made = ConnectionManager(ADDRESS)
    yield made
    made.close()
    assert CDLL(str(librdmacm)).fake_live() == 0


class Pairs:
    """Which queue pair was brought up against which."""

    def __init__(self) -> None:
        self.observed: dict[int, int] = {}

    def half(self, number: int) -> Half:
        return Half(ConnParam(qp_num=number), lambda agreed: self.observed.update({number: agreed.qp_num}))


def test_every_queue_pair_meets_its_own_peer_and_the_listener_is_closed(
    manager: ConnectionManager, librdmacm: Path
) -> None:
    pairs = Pairs()
    listener, port = manager.listen()
    for number in range(MORE_THAN_AT_ONCE):
        manager.dial(ADDRESS.gid, port, pairs.half(number))
        manager.expect(listener, number, pairs.half(1000 + number))
    manager.connect_all(30)
    there = {number: 1000 + number for number in range(MORE_THAN_AT_ONCE)}
    assert pairs.observed == {**there, **{responder: requester for requester, responder in there.items()}}
    assert CDLL(str(librdmacm)).fake_live() == 2 * MORE_THAN_AT_ONCE + 1  # ids, and the channel


def test_a_listener_is_bound_to_the_data_address_alone(manager: ConnectionManager, librdmacm: Path) -> None:
    manager.listen()
    bound = CDLL(str(librdmacm)).fake_bound
    bound.restype = POINTER(c_uint8 * 4)
    assert bytes(bound().contents) == bytes([10, 0, 0, 1]), "as ADDRESS has it, and not every address of the host"


def test_a_peer_that_never_connects_is_reported_at_the_deadline(manager: ConnectionManager) -> None:
    listener, _ = manager.listen()
    manager.expect(listener, 1, Pairs().half(2))
    with pytest.raises(AgentFault, match="1 of 1 queue pairs were not connected by RDMA-CM within 0 s") as caught:
        manager.connect_all(0.01)
    assert caught.value.kind == "timeout"


def test_a_stranger_is_refused(manager: ConnectionManager) -> None:
    pairs = Pairs()
    listener, port = manager.listen()
    manager.expect(listener, 1, pairs.half(2))
    manager.dial(ADDRESS.gid, port, pairs.half(99))
    with pytest.raises(AgentFault, match=r"RDMA_CM_EVENT_REJECTED \(status 28\)") as caught:
        manager.connect_all(30)
    assert caught.value.kind == "setup"
    assert pairs.observed == {}


def test_a_port_without_a_listener_is_a_failed_step(manager: ConnectionManager) -> None:
    manager.dial(ADDRESS.gid, 9, Pairs().half(1))
    with pytest.raises(AgentFault, match=r"RDMA_CM_EVENT_REJECTED \(status 8\)"):
        manager.connect_all(30)
