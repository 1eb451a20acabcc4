"""What a healthy subsystem would deliver for a workload.

The bound of a workload is what the same bytes in flight achieve when everything else is plain: the measured throughput
of its *plain sibling*, never above the specification (ADR 0003). Two constants, as the paper has them, would call every
workload anomalous that cannot fill the pipe by its own window. A sibling costs a run, so it is only measured for
workloads that already fall short of the cheaper ceiling (specification and calibration).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import median

from collie.workloads.dimension import Ordered
from collie.workloads.plan import shares, streams
from collie.workloads.space import Space
from collie.workloads.workload import Opcode, QpType, Workload

MAX_SIBLING_QPS = 16
_REMEMBERED_SIBLINGS = 8192
_ALWAYS_KEPT = ("requesters", "responders", "remote", "qp_type", "opcode", "more_opcodes", "messages")
_IN_FLIGHT = ("qps", "send_wq_depth", "wqe_batch", "recv_wq_depth", "messages", "mr_bytes")
"""What may differ between siblings that bracket a bound."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Highest throughput to expect at one port, and so at a host that receives from it alone (`workloads.plan.shares`).

    Attributes:
        bps: payload bits/s.
        pps: payload packets/s.
        source: `specification`, `calibration` or `plain sibling`.
        detail: how far to trust it, in words: when it was measured, how far repeats differed; empty where nothing is
            to be said.
    """

    bps: float
    pps: float
    source: str
    detail: str = ""

    @property
    def name(self) -> str:
        """Which bound this is: `calibration (2026-11-21, repeats within 7 %)`."""
        return f"{self.source} ({self.detail})" if self.detail else self.source

    def share(self, part: float) -> Bound:
        """Return the bound of a host that gets only part of what a port carries."""
        return self if part == 1.0 else Bound(self.bps * part, self.pps * part, self.source, self.detail)

    def capped(self, other: Bound) -> Bound:
        """Return the lower of two bounds, value by value; named after this one unless the other decides bits/s."""
        named = other if other.bps < self.bps else self
        return Bound(min(self.bps, other.bps), min(self.pps, other.pps), named.source, named.detail)


Specification = Callable[[Workload], "Bound"]
"""What a data sheet promises for a workload: line rate, PCIe and message rate as payload figures."""

UNBOUNDED = Bound(math.inf, math.inf, "specification")
"""The specification of a device that has none, such as Soft-RoCE."""

NOTHING_EXPECTED = Bound(0.0, 0.0, "specification")
"""A bound that any throughput meets: a verdict under it owes nothing to throughput."""


def packets(message_bytes: int, mtu: int) -> int:
    """Packets that carry one message."""
    return max(1, math.ceil(message_bytes / mtu))


def packets_per_byte(workload: Workload, sink: str | None = None) -> float:
    """Packets per payload byte, over the mix of messages, or over those whose payload a host receives."""
    sizes: Sequence[int] = workload.payloads
    if sink is not None and workload.more_opcodes:
        sizes = [size for stream in streams(workload) if stream.sink == sink for size in stream.payloads]
    return sum(packets(size, workload.mtu) for size in sizes) / sum(sizes)


def at_sink(workload: Workload, sink: str, bound: Bound) -> Bound:
    """Return the bound of one host. Where payload goes both ways, the way that carries less expects as much less."""
    if not workload.more_opcodes:
        return bound
    plan = streams(workload)
    carried = max(stream.per_request for stream in plan if stream.sink == sink)
    bps = bound.bps * carried / max(stream.per_request for stream in plan)
    return Bound(bps, bps / 8 * packets_per_byte(workload, sink), bound.source, bound.detail)


def at_own_mtu(workload: Workload, bps: float, source: str, detail: str = "") -> Bound:
    """Return a bound on bits/s with the packets/s that the workload itself makes of them."""
    return Bound(bps, bps / 8 * packets_per_byte(workload), source, detail)


def at_best_port(workload: Workload, measured: Mapping[str, Bound]) -> Bound:
    """Return the most that one port carried: what one host received, or what the hosts did that share one sender.

    Args:
        workload: what ran.
        measured: what its receiving hosts got; at least one.
    """
    parts = shares(workload)
    sharing = [bound for sink, bound in measured.items() if parts[sink] < 1.0]
    ports = [bound for sink, bound in measured.items() if parts[sink] == 1.0]
    if sharing:
        ports.append(Bound(sum(b.bps for b in sharing), sum(b.pps for b in sharing), sharing[0].source))
    return max(ports, key=lambda bound: bound.bps)


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """What plain traffic of one message size achieves.

    Attributes:
        bps: payload bits/s at the receiver, median over repeats.
        spread: (largest - smallest) / median over repeats.
    """

    qp_type: QpType
    opcode: Opcode
    message_bytes: int
    bps: float
    spread: float = 0.0

    @property
    def seconds_per_message(self) -> float:
        """Cost of one message."""
        return self.message_bytes * 8 / self.bps


@dataclass(frozen=True)
class Calibration:
    """Measured ceilings of a testbed: plain traffic per opcode, transport and message size.

    A mix of messages, or of opcodes, is bounded by the sum of their costs: a NIC or driver that spends `a + b x size`
    on a message does so in any company. Between two sizes the cost is interpolated, beyond the largest it grows with
    its slope; below the smallest it is that of the smallest.

    Attributes:
        points: what was measured.
        measured_on: the day, `2026-11-21`; None when it is not kept.
    """

    points: tuple[CalibrationPoint, ...] = ()
    measured_on: str | None = None

    def bound(self, workload: Workload) -> Bound | None:
        """Return the ceiling of a workload, or None when an opcode of it was not calibrated on its transport."""
        curves = {opcode: self._curve(workload.qp_type, opcode) for opcode in workload.opcodes}
        if not all(curves.values()):
            return None
        seconds = sum(_cost(curves[opcode], size) for opcode, size in workload.turn)
        received = max(sum(stream.payloads) for stream in streams(workload))
        return at_own_mtu(workload, received / seconds * 8, "calibration", self._trust(workload))

    def _curve(self, qp_type: QpType, opcode: Opcode) -> list[tuple[int, float]]:
        return sorted(
            (point.message_bytes, point.seconds_per_message)
            for point in self.points
            if (point.qp_type, point.opcode) == (qp_type, opcode)
        )

    def _trust(self, workload: Workload) -> str:
        """Say when the points of a workload were measured, and how far their repeats differed where there were any."""
        spread = max(
            point.spread
            for point in self.points
            if point.qp_type is workload.qp_type and point.opcode in workload.opcodes
        )
        return ", ".join(filter(None, (self.measured_on, f"repeats within {spread:.0%}" if spread > 0 else None)))

    @property
    def packet_rate(self) -> float:
        """Most packets/s that any point achieved, counting a message as one packet: the small ones are."""
        return max((1 / point.seconds_per_message for point in self.points), default=0.0)


def _cost(curve: Sequence[tuple[int, float]], message_bytes: int) -> float:
    if message_bytes <= curve[0][0] or len(curve) == 1:
        return curve[0][1] * max(1.0, message_bytes / curve[0][0])
    upper = next((i for i, (size, _) in enumerate(curve) if size >= message_bytes), len(curve) - 1)
    (low, low_cost), (high, high_cost) = curve[upper - 1], curve[upper]
    slope = max(0.0, (high_cost - low_cost) / (high - low))
    return low_cost + slope * (message_bytes - low)


def plain_sibling(workload: Workload, space: Space) -> Workload:
    """Return the workload's plain sibling.

    Same opcodes, QP type, message sizes and bytes outstanding, at most 16 queue pairs; every other dimension at its
    plain value, except those that the space marks `keep_in_sibling` (a machine whose one CPU does both directions
    cannot be judged by one direction alone).

    Args:
        workload: any workload, in the space or not.
        space: gives plain values, the deepest send queue and the limits that the sibling must keep.
    """
    space = space.whole
    kept = {name: workload.get(name) for name, dimension in space.dimensions.items() if dimension.keep_in_sibling}
    kept |= {name: workload.get(name) for name in _ALWAYS_KEPT}
    qps = min(workload.qps, MAX_SIBLING_QPS)
    outstanding = workload.qps * workload.send_wq_depth
    deepest = _deepest(space, workload)
    depth = max(1, min(outstanding // qps, deepest))  # rounded down: a bound from more bytes in flight is no bound
    mr_bytes = max(space.base.mr_bytes, *workload.payloads)
    # A plain value may not fit its neighbours: a UD message of 4 KiB needs that MTU, a queue of one takes no batch.
    mtu = max(space.base.mtu, workload.mtu) if workload.qp_type is QpType.UD else space.base.mtu
    batch = min(space.base.wqe_batch, depth)
    receive = max(space.base.recv_wq_depth, batch)
    return space.base.with_(
        **{
            "mr_bytes": mr_bytes,
            "mtu": mtu,
            **kept,
            "qps": qps,
            "send_wq_depth": depth,
            "wqe_batch": batch,
            "recv_wq_depth": receive,
        }
    )


def _deepest(space: Space, workload: Workload) -> int:
    dimension = space.dimensions.get("send_wq_depth")
    return dimension.high if isinstance(dimension, Ordered) else max(space.base.send_wq_depth, workload.send_wq_depth)


def remembered_siblings(space: Space) -> Callable[[Workload], Workload]:
    """Return `plain_sibling` in a space, remembering the last few thousand."""
    return lru_cache(maxsize=_REMEMBERED_SIBLINGS)(partial(plain_sibling, space=space))


class Bounds:
    """Bounds of one testbed, as far as they are known by now. `calibration` may be set once it has been measured.

    Args:
        specification: line rate, PCIe and message rate as payload figures for a workload.
        calibration: measured ceilings; empty on a testbed whose specification says enough.
        siblings: the space that gives the plain values of siblings; or what gives the plain sibling of a workload,
            shared by bounds of one space that are asked for the same workloads.
    """

    def __init__(
        self,
        specification: Specification,
        calibration: Calibration,
        siblings: Space | Callable[[Workload], Workload],
    ) -> None:
        self._specification = specification
        self.calibration = calibration
        self.sibling = remembered_siblings(siblings) if isinstance(siblings, Space) else siblings
        self._siblings: dict[Workload, list[Bound]] = {}
        self._packet_rate = 0.0

    def ceiling(self, workload: Workload) -> Bound:
        """Return the bound that costs no run: the specification, or the calibration where that is lower."""
        calibrated = self.calibration.bound(workload)
        return self._capped(workload, calibrated) if calibrated else self._specification(workload)

    def learn(self, sibling: Workload, measured: Mapping[str, Bound]) -> None:
        """Remember what a sibling achieved, at the best of its ports; the median of its runs is the bound."""
        if measured:
            best = at_best_port(sibling, measured)
            self._siblings.setdefault(sibling, []).append(best)
            self._packet_rate = max(self._packet_rate, best.pps)

    def distrust(self, sibling: Workload) -> None:
        """Judge by the ceiling instead of a sibling that is itself anomalous: its throughput is no healthy one."""
        self._siblings[sibling] = [self.ceiling(sibling)]

    def known(self, workload: Workload) -> bool:
        """Whether the workload's sibling has been measured."""
        return self.sibling(workload) in self._siblings

    def tightest(self, workload: Workload) -> Bound:
        """Return the sibling's throughput if it was measured, never above the specification; else the ceiling."""
        runs = self._siblings.get(self.sibling(workload))
        if not runs:
            return self.ceiling(workload)
        return self._capped(workload, at_own_mtu(workload, median(run.bps for run in runs), runs[-1].source))

    def bracket(self, workload: Workload) -> tuple[Bound | None, Bound | None]:
        """Return what siblings achieved that are like the workload's own, but for fewer or more bytes in flight.

        Neither longer messages nor more of them in flight make plain traffic slower, so the bound lies between the two.
        None: none measured.
        """
        own = self.sibling(workload)
        below: list[float] = []
        above: list[float] = []
        for sibling, runs in self._siblings.items():
            rate = median(run.bps for run in runs)
            # One that is distrusted achieved nothing that counts; without a data sheet its ceiling is no number.
            if math.isinf(rate) or own != sibling.with_(**{name: own.get(name) for name in _IN_FLIGHT}):
                continue
            same = sibling.messages == own.messages
            if sibling.bytes_outstanding <= own.bytes_outstanding and (
                same or max(sibling.messages) <= min(own.messages)
            ):
                below.append(rate)
            if sibling.bytes_outstanding >= own.bytes_outstanding and (
                same or min(sibling.messages) >= max(own.messages)
            ):
                above.append(rate)

        def bound(rates: list[float], tightest: Callable[[list[float]], float]) -> Bound | None:
            if not rates:
                return None
            return self._capped(workload, at_own_mtu(workload, tightest(rates), "plain sibling"))

        return bound(below, max), bound(above, min)

    def _capped(self, workload: Workload, bound: Bound) -> Bound:
        """Keep a bound within the specification.

        A bound on bits/s says nothing about packets/s at a smaller MTU than the one it was measured at: there the
        device's packet rate is the limit, from the data sheet or, without one, the highest seen so far.
        """
        specified = self._specification(workload)
        if math.isinf(specified.pps):
            seen = max(self.calibration.packet_rate, self._packet_rate)
            specified = Bound(specified.bps, seen or math.inf, specified.source)
        return bound.capped(specified)
