"""RDMA netlink answers, as recorded on a machine with rdma_rxe (kernel 6.1)."""

from __future__ import annotations

import array
import socket
import struct

import pytest

from collie.agent import devlink, ethtool, netlink

DEVICE = bytes.fromhex(
    "080001000000000009000200727865300000000008000300010000000c000400763c2201000000000c000600017adafeff005450"
    "0c000700017adafeff00545005000e0001000000050054000000000009004300726f636500000000"
)
COUNTERS = bytes.fromhex(
    "0800010000000000090002007278653000000000080003000100000070005080"
    "200051800e00520073656e745f706b74730000000c0053005c23480000000000"
    "200051800e005200726376645f706b74730000000c0053001d1d170000000000"
    "2c0051801b00520072657472795f726e725f65786365656465645f65727200000c0053000500000000000000"
)
QUEUE_PAIRS = bytes.fromhex(
    "080001000000000009000200727865300000000090001300540014000800030001000000080015003f08000008003c00db000000"
    "08001c009e04000008001600450800000800170000000000080018003d0f0000050019000000000005001a000200000005001b00"
    "0300000038001400080003000100000008001500010000000c001d0069625f636f726500080018000000000005001a0001000000"
    "05001b0003000000"
)


def test_a_device_has_a_name_and_an_index() -> None:
    assert netlink.parse_device(DEVICE) == ("rxe0", 0)


def test_hardware_counters_are_read_from_the_nested_table() -> None:
    assert netlink.parse_counters(COUNTERS) == {
        "sent_pkts": 4727644,
        "rcvd_pkts": 1514781,
        "retry_rnr_exceeded_err": 5,
    }


def test_queue_pairs_name_their_owner() -> None:
    user, kernel = netlink.parse_queue_pairs(QUEUE_PAIRS)
    assert (user.qpn, user.type, user.state, user.pid) == (2111, "RC", "RTS", 1182)
    assert (kernel.qpn, kernel.type, kernel.state, kernel.pid, kernel.comm) == (1, "GSI", "RTS", None, "ib_core")


def message(kind: int, sequence: int, payload: bytes) -> bytes:
    return netlink.HEADER.pack(netlink.HEADER.size + len(payload), kind, 0, sequence, 0) + payload


def test_a_datagram_holds_several_messages() -> None:
    first = message(netlink.NLDEV | netlink.CMD_GET, 1, b"abcd")
    last = message(netlink.NLMSG_DONE, 1, b"\0\0\0\0")
    assert list(netlink.messages(first + last, 1)) == [
        (netlink.NLDEV | netlink.CMD_GET, b"abcd"),
        (netlink.NLMSG_DONE, b"\0\0\0\0"),
    ]


class LateKernel:
    """A netlink socket whose first answer comes after the timeout. Every answer repeats its request."""

    def __init__(self) -> None:
        self._answers: list[bytes] = []
        self._is_late = True

    def settimeout(self, seconds: float) -> None:
        pass

    def send(self, request: bytes) -> None:
        _, kind, _, sequence, _ = netlink.HEADER.unpack_from(request)
        self._answers += [
            message(kind, sequence, request[netlink.HEADER.size :]),
            message(netlink.NLMSG_ERROR, sequence, b"\0\0\0\0"),
        ]

    def recv(self, size: int) -> bytes:
        if self._is_late:
            self._is_late = False
            raise TimeoutError("the kernel is late")
        return self._answers.pop(0)


def test_an_answer_that_comes_too_late_answers_no_other_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", lambda *_: LateKernel())
    asked = netlink.NetlinkSocket(netlink.NETLINK_RDMA)
    with pytest.raises(OSError, match="late"):
        asked.ask(netlink.CMD_STAT_GET, netlink.NLM_F_ACK, b"first")
    for body in (b"next", b"last"):
        assert asked.ask(netlink.CMD_STAT_GET, netlink.NLM_F_ACK, body) == [body]


def test_what_is_cut_off_is_left_out_rather_than_misread() -> None:
    assert netlink.parse_counters(COUNTERS[:60]) == {}
    assert list(netlink.attributes(struct.pack("=HH", 0, 1))) == []
    assert list(netlink.messages(b"\x10\0\0\0", 1)) == []


def test_driver_statistics_with_one_name_stay_apart() -> None:
    data = b"".join(name.ljust(ethtool.NAME_BYTES, b"\0") for name in (b"rx_pause", b"drops", b"drops"))
    assert ethtool.split_names(data, 3) == ("rx_pause", "drops", "drops#2")


class GrowingDriver:
    """The kernel's side of the three questions, of a device whose set of statistics grows after each answer."""

    def __init__(self, count: int, grows_by: int) -> None:
        self._count, self._grows_by = count, grows_by

    def __call__(self, _netdev: str, buffer: array.array[int]) -> None:
        command = struct.unpack_from("=I", buffer, 0)[0]
        if command == ethtool.GSSET_INFO:
            answer = struct.pack("=IIQI", command, 0, 1 << ethtool.STATS_SET, self._count)
        elif command == ethtool.GSTRINGS:
            names = b"".join(f"counter_{n}".encode().ljust(ethtool.NAME_BYTES, b"\0") for n in range(self._count))
            answer = struct.pack("=III", command, ethtool.STATS_SET, self._count) + names
        else:
            answer = struct.pack(f"=II{self._count}Q", command, self._count, *range(self._count))
        assert len(answer) <= len(buffer), "the kernel writes beyond the end"
        buffer[: len(answer)] = array.array("B", answer)
        self._count += self._grows_by


def test_statistics_that_stay_as_they_are_have_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ethtool, "_ioctl", GrowingDriver(3, 0))
    assert ethtool.statistics("eth0", ethtool.names("eth0")) == {"counter_0": 0, "counter_1": 1, "counter_2": 2}


@pytest.mark.parametrize("grows_by", [1, 48, 2000])
def test_a_set_that_grows_between_two_questions_is_written_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, grows_by: int
) -> None:
    monkeypatch.setattr(ethtool, "_ioctl", GrowingDriver(100, grows_by))
    names = ethtool.names("eth0")
    assert len(names) == 100 + grows_by
    assert ethtool.statistics("eth0", names) is None


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def test_a_diagnosis_of_devlink_gives_its_numbers() -> None:
    """Laid out as devlink_fmsg does: an object of pairs of name, type (NLA_U64 4, NLA_U32 3, NLA_STRING 5), value."""

    def pair(name: str, form: int, value: bytes) -> bytes:
        marks = attribute(108, b"") + attribute(111, name.encode() + b"\0")
        return marks + attribute(112, bytes([form])) + attribute(113, value) + attribute(110, b"")

    items = (
        attribute(107, b"")
        + attribute(108, b"")
        + attribute(111, b"vNIC env counters\0")
        + attribute(107, b"")
        + pair("total_error_queues", 4, struct.pack("=Q", 7))
        + pair("cq_overrun", 3, struct.pack("=I", 2))
        + pair("state", 5, b"healthy\0")
        + attribute(110, b"") * 3
    )
    payload = struct.pack("=BBH", devlink.CMD_HEALTH_REPORTER_DIAGNOSE, 1, 0) + attribute(106 | 0x8000, items)
    assert devlink.parse_diagnosis(payload) == {"total_error_queues": 7, "cq_overrun": 2}


def test_texts_of_a_request_end_with_a_zero_and_fill_four_bytes() -> None:
    assert netlink.attribute_text(1, "pci") == b"\x08\0\x01\0pci\0"
    assert netlink.attribute_text(115, "vnic") == b"\x09\0\x73\0vnic\0\0\0\0"
