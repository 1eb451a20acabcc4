"""Connecting by RDMA-CM, as far as it goes without a device."""

from __future__ import annotations

import socket
import struct

import pytest

from collie.agent import rdma_cm
from collie.agent.faults import AgentFault
from collie.agent.rdma_cm import Address, ConnectionManager


def test_the_gid_of_an_ipv4_address_becomes_that_address() -> None:
    sockaddr = Address("0000:0000:0000:0000:0000:ffff:c0a8:4d01", "eth1").socket_address(18515)
    family, port, address = struct.unpack_from("=H2s4s", sockaddr)
    assert (family, struct.unpack("!H", port)[0], socket.inet_ntoa(address)) == (socket.AF_INET, 18515, "192.168.77.1")
    assert len(sockaddr) == 16


@pytest.mark.parametrize(("gid", "scope"), [("2001:db8::1", 0), ("fe80::1", socket.if_nametoindex("lo"))])
def test_a_link_local_address_is_of_its_interface(gid: str, scope: int) -> None:
    sockaddr = Address(gid, "lo").socket_address()
    family, port, _flow, address, found = struct.unpack("=HHI16sI", sockaddr)
    assert (family, port, socket.inet_ntop(socket.AF_INET6, address)) == (socket.AF_INET6, 0, gid)
    assert found == scope


def test_a_host_without_librdmacm_says_so_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdma_cm, "LIBRARY", "libnone.so.1")
    assert "libnone.so.1" in (rdma_cm.why_not() or "")
    with pytest.raises(AgentFault, match="apt-get install librdmacm1") as caught:
        ConnectionManager(Address("::ffff:10.0.0.1", "eth1"))
    assert caught.value.kind == "unsupported"
