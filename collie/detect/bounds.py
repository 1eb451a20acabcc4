"""The bound of a workload: the throughput that a healthy subsystem delivers for it.

Terms. The *specification* is the data sheet's limit: line rate, PCIe and message rate. *Calibration* holds measured
ceilings of plain traffic by message size. The *plain sibling* has the workload's transport, message sizes, offered load
and bytes outstanding, at most 16 queue pairs, and all else plain (ADR 0003).

Rules.
1. The *ceiling* costs no run. It is the specification, or the calibration where that is lower.
2. Only a workload below its ceiling needs its plain sibling measured. The bound is then the median of the sibling's
   runs. At an offered load the sibling has the workload's batch, and that with plain batches bounds throughput, too.
   So does a sibling that imitates the workload's control verbs. It also bounds latency and what a victim keeps.
3. A sibling that is itself anomalous, or too slow to compare victims, is *distrusted* and bounds nothing. Its relatives
   with fewer or more bytes in flight (`Bounds.bracket`) decide, or no bound is known. The specification is no
   substitute: healthy plain traffic of short messages can stay far below it.
4. A sibling that is merely slow shows no symptom. The space's plain workload of each transport and opcode is therefore
   compared with the others. If it misses the specification and another one reaches it, its transport is *outpaced*.
   Outpaced plain siblings bound from below only. The specification bounds traffic with at least as many queue pairs,
   at least as many bytes in flight and messages at least as long. For all other traffic no bound is known.

Invariant. No bound exceeds the specification. Without a specification, its packets/s are at most the highest rate seen.

Worked example. A WRITE workload of space `nsdi22` has 320 queue pairs, send_wq_depth 16, 4 KiB messages, mtu 1024 and
wqe_batch 8. The specification allows 200 Gbit/s, so 150 Gbit/s is 25 % short. That exceeds the 20 % threshold and needs
the sibling: 16 queue pairs, send_wq_depth 320, mtu 4096, wqe_batch 1. Both keep 320 x 16 x 4 KiB = 20 MiB in flight.
The sibling delivers 160 Gbit/s, so the bound is 160 Gbit/s and 19.5 Mpps at mtu 1024. The workload misses 6 % and is
normal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import median
from typing import Any

from collie.detect.brackets import latencies_of, longest, middle, range_of
from collie.detect.links import LinkLatency
from collie.detect.measurement import Latency
from collie.detect.plain import curve_of, plain_workloads, remembered_siblings
from collie.workloads.plan import packets_per_byte, shares, streams
from collie.workloads.space import Space
from collie.workloads.workload import FIELD_NAMES, Opcode, QpType, Workload, reader

_IN_FLIGHT = ("qps", "send_wq_depth", "wqe_batch", "recv_wq_depth", "messages", "mr_bytes")
"""Fields in which siblings that bracket a bound can differ."""

NOT_CARRIED = 0.02
"""Share of its offered load that plain traffic can lack. Beyond, its latency tells how long its send queues are."""

_shared = reader([name for name in FIELD_NAMES if name not in {*_IN_FLIGHT, "offered_bps"}])


@dataclass(frozen=True, slots=True)
class Bound:
    """Highest expected throughput of one port, and of a host that alone receives from it (`workloads.plan.shares`).

    Attributes:
        bps, pps: bits/s and packets/s of payload.
        source: `specification`, `offered load`, `calibration` or `plain sibling`.
        detail: date and repeatability of the measurement, or that it is a limit which like traffic sets.
        latency: of the plain sibling at the same offered load, the longest of its flows. None if none is known, or if
            the sibling does not carry the load.
        victim_bps: of the plain flow beside the plain sibling. None if none is known.
        victim_latency: of that flow. None if none is known, or if the flow does not carry its load.
    """

    bps: float
    pps: float
    source: str
    detail: str = ""
    latency: Latency | None = None
    victim_bps: float | None = None
    victim_latency: Latency | None = None

    @property
    def name(self) -> str:
        """Source and detail: `calibration (2026-11-21, repeats within 7 %)`."""
        return f"{self.source} ({self.detail})" if self.detail else self.source

    def beside(self, other: Bound) -> Bound:
        """Return this bound with the longest latency and the least that the victim keeps, of both.

        Without the latency of one of them, none is known: a sibling that cannot carry its load is late.
        """
        kept = [each.victim_bps for each in (self, other) if each.victim_bps is not None]
        return replace(
            self,
            latency=_longer(self.latency, other.latency),
            victim_bps=min(kept, default=None),
            victim_latency=_longer(self.victim_latency, other.victim_latency),
        )

    def share(self, part: float) -> Bound:
        """Return the bound of a host that gets part of a port's traffic."""
        return self if part == 1.0 else replace(self, bps=self.bps * part, pps=self.pps * part)

    def _of_sibling(self) -> dict[str, Any]:
        return {"latency": self.latency, "victim_bps": self.victim_bps, "victim_latency": self.victim_latency}

    def capped(self, other: Bound) -> Bound:
        """Return the lower of both values. The bound that decides bits/s gives the source and the detail."""
        named = other if other.bps < self.bps else self
        return replace(named, bps=min(self.bps, other.bps), pps=min(self.pps, other.pps), **self._of_sibling())


def _longer(one: Latency | None, other: Latency | None) -> Latency | None:
    """Return the longer of two latencies, None unless both are known."""
    return None if one is None or other is None else longest([one, other])


Specification = Callable[[Workload], "Bound"]

UNBOUNDED = Bound(math.inf, math.inf, "specification")
"""The bound of a device without a specification, such as Soft-RoCE."""

NOTHING_EXPECTED = Bound(0.0, 0.0, "specification", victim_bps=-math.inf)
"""A bound that any throughput reaches."""


def at_sink(workload: Workload, sink: str, bound: Bound) -> Bound:
    """Return the bound of one host. If payload goes both ways, the direction with less has the smaller bound."""
    if not workload.more_opcodes:
        return bound
    plan = streams(workload)
    carried = max(stream.per_request for stream in plan if stream.sink == sink)
    bps = bound.bps * carried / max(stream.per_request for stream in plan)
    return replace(bound, bps=bps, pps=bps / 8 * packets_per_byte(workload, sink))


def host_bounds(workload: Workload, bound: Bound) -> Mapping[str, Bound]:
    """Return the bound of each receiving host, given that of one port."""
    return {sink: at_sink(workload, sink, bound.share(part)) for sink, part in shares(workload).items()}


def at_own_mtu(workload: Workload, bps: float, source: str, detail: str = "") -> Bound:
    """Return a bound on bits/s with the packets/s that result at the workload's MTU."""
    return Bound(bps, bps / 8 * packets_per_byte(workload), source, detail)


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """Throughput of plain traffic with one message size.

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
    """Measured ceilings of plain traffic per opcode, transport and message size, from the day `measured_on`.

    `links` has its latency at an offered load, if the space offers one.

    The sum of message costs bounds a mix, because a NIC or driver that spends `a + b x size` on a message does so in
    any mix. The cost is interpolated between two sizes, grows with the last slope beyond the largest, and is constant
    below the smallest.
    """

    points: tuple[CalibrationPoint, ...] = ()
    measured_on: str | None = None
    links: tuple[LinkLatency, ...] = ()

    def bound(self, workload: Workload) -> Bound | None:
        """Return the ceiling of a workload, or None without calibration of all its opcodes on its transport."""
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
        """Return the date of a workload's points, and their repeatability where repeats exist."""
        spread = max(
            point.spread
            for point in self.points
            if point.qp_type is workload.qp_type and point.opcode in workload.opcodes
        )
        return ", ".join(filter(None, (self.measured_on, f"repeats within {spread:.0%}" if spread > 0 else None)))

    @property
    def packet_rate(self) -> float:
        """Highest packets/s of any point, counting each message as one packet."""
        return max((1 / point.seconds_per_message for point in self.points), default=0.0)


def _cost(curve: Sequence[tuple[int, float]], message_bytes: int) -> float:
    if message_bytes <= curve[0][0] or len(curve) == 1:
        return curve[0][1] * max(1.0, message_bytes / curve[0][0])
    upper = next((i for i, (size, _) in enumerate(curve) if size >= message_bytes), len(curve) - 1)
    (low, low_cost), (high, high_cost) = curve[upper - 1], curve[upper]
    slope = max(0.0, (high_cost - low_cost) / (high - low))
    return low_cost + slope * (message_bytes - low)


class Bounds:
    """Bounds of one testbed from all data so far. `calibration` can be set once measured.

    `siblings` is the space of plain values, or a function from workload to sibling. The function alone cannot tell that
    plain traffic is slow.
    """

    def __init__(
        self,
        specification: Specification,
        calibration: Calibration,
        siblings: Space | Callable[[Workload], Workload],
    ) -> None:
        self._data_sheet = specification
        self.calibration = calibration
        self.sibling = remembered_siblings(siblings) if isinstance(siblings, Space) else siblings
        self._plain = plain_workloads(siblings.whole) if isinstance(siblings, Space) else ()
        self._space = siblings.whole if isinstance(siblings, Space) else None
        self._siblings: dict[Workload, list[Bound]] = {}
        self._alike: dict[tuple[object, ...], dict[Workload, float]] = {}
        self._distrusted: set[Workload] = set()
        self._outpaced: dict[tuple[QpType, Opcode], str] = {}
        self._packet_rate = 0.0

    def ceiling(self, workload: Workload) -> Bound:
        """Return the bound that costs no run."""
        specified, calibrated = self._specification(workload), self.calibration.bound(workload)
        repeats_slowness = self.is_outpaced(workload) or workload in self._plain
        if calibrated is None or (math.isfinite(specified.bps) and repeats_slowness):
            return specified
        return self._capped(workload, calibrated)

    def _specification(self, workload: Workload) -> Bound:
        """Return the data sheet's bound, or the offered load of a port where that is lower."""
        specified = self._data_sheet(workload)
        if not workload.offered_bps:
            return specified
        offered = at_own_mtu(workload, float(workload.offered_bps * workload.partners), "offered load")
        return specified.capped(offered)

    def learn(self, sibling: Workload, measured: Mapping[str, Bound]) -> None:
        """Add one run of a sibling, at the busiest of its ports."""
        if measured:
            best = max(measured.values(), key=attrgetter("bps"))
            runs = self._siblings.setdefault(sibling, [])
            runs.append(best)
            self._alike.setdefault(_shared(sibling), {})[sibling] = _median(runs)
            self._packet_rate = max(self._packet_rate, best.pps)

    def distrust(self, sibling: Workload) -> None:
        """Remember that a sibling is itself anomalous, or cannot be driven."""
        self._distrusted.add(sibling)

    def is_distrusted(self, sibling: Workload) -> bool:
        """Whether a sibling was distrusted."""
        return sibling in self._distrusted

    def relatives(self, sibling: Workload, deficit: float) -> tuple[Workload, ...]:
        """Return the workloads that tell whether a measured sibling is slow, nothing where it is not in question."""
        in_question = sibling in self._plain and not self.reaches(sibling, deficit)
        if not in_question or math.isinf(self._specification(sibling).bps):
            return ()
        return tuple(workload for workload in self._plain if workload != sibling)

    def reaches(self, sibling: Workload, deficit: float) -> bool:
        """Whether a sibling lacks at most this share of the specification."""
        runs = self._siblings.get(sibling)
        return runs is not None and _median(runs) >= (1.0 - deficit) * self._specification(sibling).bps

    def is_outpaced(self, workload: Workload) -> bool:
        """Whether plain traffic of the workload's transport and opcode is slow."""
        return _transport(workload) in self._outpaced

    def outpace(self, sibling: Workload, relative: Workload) -> None:
        """Remember that plain traffic of a transport is slow, because a relative reaches the specification."""
        self._outpaced[_transport(sibling)] = f"plain {relative.qp_type} {relative.opcode} reaches it"

    def known(self, workload: Workload) -> bool:
        """Whether `tightest` decides: the sibling is a reference, or the specification holds for outpaced traffic."""
        if self.is_outpaced(workload):
            return self._is_deep(workload)
        return self.is_reference(self.sibling(workload))

    def is_reference(self, sibling: Workload) -> bool:
        """Whether a sibling is measured, and not distrusted."""
        return sibling in self._siblings and sibling not in self._distrusted

    def settled(self, workload: Workload) -> bool:
        """Whether another run of the sibling would tell nothing new about the bound."""
        sibling = self.sibling(workload)
        return sibling in self._siblings or sibling in self._distrusted

    def tightest(self, workload: Workload) -> Bound:
        """Return the sibling's throughput if it is a reference, else the ceiling."""
        if not self.known(workload):
            return self.ceiling(workload)
        if reached := self._outpaced.get(_transport(workload)):
            specified = self._specification(workload)
            return Bound(specified.bps, specified.pps, specified.source, reached)
        runs = self._siblings[self.sibling(workload)]
        reference = replace(
            at_own_mtu(workload, _median(runs), runs[-1].source),
            latency=self._latency(self.sibling(workload)),
            victim_bps=_middle(run.victim_bps for run in runs),
            victim_latency=middle([run.victim_latency for run in runs if run.victim_latency is not None]),
        )
        return self._with_imitation(workload, self._capped(workload, reference))

    def _with_imitation(self, workload: Workload, bound: Bound) -> Bound:
        """Return the bound on latency and on what a victim keeps that holds beside imitated control verbs, too."""
        imitating = self.imitating(workload)
        if imitating is None or not self.is_reference(self.sibling(imitating)):
            return bound
        return bound.beside(self.tightest(imitating))

    def _latency(self, sibling: Workload) -> Latency | None:
        """Return the median of each quantile over the runs of a sibling. None if it carries no load."""
        runs = self._siblings[sibling]
        if not sibling.offered_bps:
            return None  # it tells the length of a full send queue
        if _median(runs) < (1.0 - NOT_CARRIED) * sibling.offered_bps * sibling.partners:
            return None
        return middle([run.latency for run in runs if run.latency is not None])

    def unbatched(self, workload: Workload) -> Workload | None:
        """Return the workload with plain batches, if its sibling bounds throughput, too.

        At an offered load a sibling keeps the batch for its latency, and can be faster than plain traffic.
        """
        if self._space is None or not workload.offered_bps or workload.wqe_batch <= self._space.base.wqe_batch:
            return None
        return workload.with_(wqe_batch=self._space.base.wqe_batch)

    def imitating(self, workload: Workload) -> Workload | None:
        """Return the workload with imitated control verbs, or None if it makes none.

        Verbs take CPU time. On a host of few CPUs this holds up any traffic, whatever they do to the NIC.
        """
        if self._space is None or not workload.makes_control_verbs:
            return None
        return workload.with_(control_verbs_imitated=True)

    def _is_deep(self, workload: Workload) -> bool:
        """Whether a workload's sibling can carry what the plain workload carries."""
        sibling, base = self.sibling(workload), self._plain[0]
        return (
            sibling.remote == base.remote
            and sibling.qps >= base.qps
            and min(sibling.messages) >= max(base.messages)
            and sibling.bytes_outstanding >= base.bytes_outstanding
        )

    def bracket(self, workload: Workload) -> tuple[Bound | None, Bound | None]:
        """Return bounds from similar siblings that carry less and that carry more, each None if none is measured.

        Plain traffic gets no slower with more queue pairs and with longer or more messages in flight, so the bound lies
        between the two.
        """
        own = self.sibling(workload)
        alike = self._alike.get(_shared(own), {})
        # At an offered load siblings have the batch of their workload, and a batch needs fewer doorbells.
        same_load = {
            sibling: bps
            for sibling, bps in alike.items()
            if sibling.offered_bps == own.offered_bps and (not own.offered_bps or sibling.wqe_batch == own.wqe_batch)
        }
        between = range_of(own, ((each, bps) for each, bps in same_load.items() if each not in self._distrusted))

        low, high = (
            None if bps is None else self.by_siblings(workload, bps, f"{side}, as like traffic shows")
            for bps, side in ((between.low, "at least"), (between.high, "at most"))
        )
        return low, None if self.is_outpaced(workload) else high

    def by_siblings(self, workload: Workload, bps: float, detail: str = "") -> Bound:
        """Return the bound of a workload whose plain siblings give these bits/s."""
        return self._capped(workload, at_own_mtu(workload, bps, "plain sibling", detail))

    def latency_bracket(self, workload: Workload) -> tuple[Bound | None, Bound | None]:
        """Return the ceiling with the shortest and with the longest latency that the plain sibling can have.

        Each is None if no like traffic tells.
        """
        own, ceiling = self.sibling(workload), self.ceiling(workload)
        alike = self._alike.get(_shared(own), ())
        known = ((sibling, self._latency(sibling)) for sibling in alike if sibling not in self._distrusted)
        between = latencies_of(own, ((sibling, latency) for sibling, latency in known if latency is not None))

        def bound(latency: Latency | None) -> Bound | None:
            return None if latency is None else replace(ceiling, latency=latency)

        low, high = bound(between.low), bound(between.high)
        return low, None if high is None else self._with_imitation(workload, high)

    def curve(self, workload: Workload) -> tuple[Workload, ...]:
        """Return the plain traffic that brackets most siblings of a workload's transport. Empty if there is none."""
        return curve_of(self.sibling(workload), self._space) if self._space is not None else ()

    def _capped(self, workload: Workload, bound: Bound) -> Bound:
        """Return a bound within the specification.

        A bound on bits/s does not limit packets/s at a smaller MTU. The device's packet rate does, specified or seen.
        """
        specified = self._specification(workload)
        if math.isinf(specified.pps):
            seen = max(self.calibration.packet_rate, self._packet_rate)
            specified = Bound(specified.bps, seen or math.inf, specified.source)
        for other in (self.unbatched(workload), self.imitating(workload)):
            if other is not None and self.is_reference(self.sibling(other)):
                detail = "with imitated control verbs" if other.control_verbs_imitated else ""
                runs = self._siblings[self.sibling(other)]
                bound = bound.capped(at_own_mtu(workload, _median(runs), "plain sibling", detail))
        return bound.capped(specified)


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _transport(workload: Workload) -> tuple[QpType, Opcode]:
    return workload.qp_type, workload.opcode


def _median(runs: Sequence[Bound]) -> float:
    return median(run.bps for run in runs)
