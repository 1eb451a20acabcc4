"""Plain traffic: the sibling of a workload, the plain workloads of all transports, and curves over message sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import product
from typing import Any

from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.setup import made_for_all
from collie.workloads.space import Space
from collie.workloads.workload import BESIDE_TRAFFIC, QpType, Workload

MAX_SIBLING_QPS = 16
_REMEMBERED_SIBLINGS = 8192
_ALWAYS_KEPT = ("remote", "qp_type", "opcode", "more_opcodes", "messages")
_CURVE_STEP = 2
"""Every such step of the ladder of message sizes is a point of a curve."""


def plain_sibling(workload: Workload, space: Space) -> Workload:
    """Return the workload's plain sibling.

    Dimensions that the space marks `keep_in_sibling` stay: traffic in one direction is no reference for a host whose
    single CPU drives both directions. Between one pair of ports it has in flight, and is offered, what the busiest host
    has with all its partners: a port carries as much for several partners as for one (ADR 31). Imitated control verbs
    stay, because they take the CPU time that real ones take (ADR 44).
    """
    space = space.whole
    kept = {name: workload.get(name) for name, dimension in space.dimensions.items() if dimension.keep_in_sibling}
    kept |= {name: workload.get(name) for name in _ALWAYS_KEPT}
    if workload.control_verbs_imitated:
        kept |= {name: workload.get(name) for name in BESIDE_TRAFFIC}
    kept["offered_bps"] = workload.offered_bps * workload.partners
    qps = min(workload.qps * workload.partners, MAX_SIBLING_QPS)
    outstanding = workload.qps * workload.partners * workload.send_wq_depth
    depth = max(
        1, min(outstanding // qps, _deepest(space, workload))
    )  # rounded down: a bound from more bytes in flight is too high
    mr_bytes = max(space.base.mr_bytes, *workload.payloads)
    # A plain value can conflict with kept ones: a 4 KiB UD message needs that MTU, a queue of one takes no batch.
    mtu = max(space.base.mtu, workload.mtu) if workload.qp_type is QpType.UD else space.base.mtu
    # Messages of one post wait for each other, so at an offered load the batch is part of what is compared.
    batch = min(workload.wqe_batch if workload.offered_bps else space.base.wqe_batch, depth)
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
    """Return `plain_sibling` in a space, with a cache."""
    return lru_cache(maxsize=_REMEMBERED_SIBLINGS)(partial(plain_sibling, space=space))


def plain_workloads(space: Space) -> tuple[Workload, ...]:
    """Return the plain workload of each transport and opcode that takes the plain message sizes."""
    choices = [
        each.values if isinstance(each := space.dimensions.get(name), Choice) else (space.base.get(name),)
        for name in ("qp_type", "opcode")
    ]
    workloads = (space.base.with_(qp_type=qp_type, opcode=opcode) for qp_type, opcode in product(*choices))
    return tuple(workload for workload in workloads if space.allows(workload))


def curve_of(sibling: Workload, space: Space) -> tuple[Workload, ...]:
    """Return plain traffic of a sibling's transport and opcode, one message size after another.

    For each size it has as much in flight as the plain workload, and as much as a sibling can have. One set-up serves
    all. Sizes for which that would break a limit of the space are left out. At an offered load a curve brackets few
    siblings, as it would have one load and one batch, so there is none (ADR 39).
    """
    lengths = space.dimensions.get("messages")
    if not isinstance(lengths, Vector) or sibling.more_opcodes or sibling.offered_bps:
        return ()
    base = space.base
    variants: list[dict[str, Any]] = [
        {"qps": base.qps, "send_wq_depth": base.send_wq_depth},
        {"qps": MAX_SIBLING_QPS, "send_wq_depth": _deepest(space, sibling)},
    ]
    points: list[Workload] = []
    for size in lengths.element.ladder[::_CURVE_STEP]:
        for changes in variants:
            point = plain_sibling(sibling.with_(messages=(size,), **changes), space)
            if space.allows(point) and space.allows(made_for_all([*points, point])):
                points.append(point)
    return tuple(dict.fromkeys(points))
