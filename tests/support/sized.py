"""The physical parameter behind each sized mechanism, and the threshold of its anomaly as that parameter changes.

A mechanism that follows from a resource moves with it: twice the room, twice the threshold. A rule that only names the
paper's thresholds would stay where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth
from collie.workloads.space import Space
from collie.workloads.workload import Workload


@dataclass(frozen=True)
class Sized:
    """A parameter and the dimension whose threshold it sets.

    Attributes:
        mechanism: what runs short.
        subsystem: whose witness is the starting point.
        part, parameter: of the subsystem.
        dimension: of the workload, or `message_bytes`.
        changes: to the witness, so that nothing else sets the threshold.
        limit: the largest value that the dimension is looked at.
        factors: on the parameter.
    """

    mechanism: Mechanism
    subsystem: str
    part: str
    parameter: str
    dimension: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    limit: int = 1 << 20
    factors: tuple[float, float, float] = (0.5, 1.0, 2.0)

    def fits(self, subsystem: SubsystemFile, name: str) -> bool:
        """Whether a file plants the mechanism: F and H as written above, another one by its witness."""
        return self.subsystem == name or (
            name not in {each.subsystem for each in SIZED}
            and any(witness.mechanism is self.mechanism for witness in subsystem.witnesses)
        )


_DEEP: Final = {"send_wq_depth": 16384, "recv_wq_depth": 16384}
M = Mechanism
SIZED: Final = (
    Sized(M.DATAGRAM_PREFETCH, "F", "datagram_receives", "prefetch_wqes", "wqe_batch", changes=_DEEP, limit=16384),
    Sized(M.DATAGRAM_PREFETCH, "F", "datagram_receives", "resident_wqes_per_queue", "recv_wq_depth"),
    Sized(M.DATAGRAM_RECEIVE_CACHE, "F", "datagram_receives", "size_bytes", "qps"),
    Sized(M.READ_SLOW_PATH, "F", "reads", "bulk_packets", "message_bytes"),
    Sized(M.READ_SCATTER_LISTS, "F", "reads", "scatter_lists", "qps"),
    Sized(M.RELIABLE_PREFETCH, "F", "reliable_receives", "prefetch_wqes", "wqe_batch", changes=_DEEP, limit=16384),
    Sized(M.RELIABLE_PREFETCH, "F", "reliable_receives", "resident_wqes_per_queue", "recv_wq_depth"),
    Sized(M.RELIABLE_RECEIVE_CACHE, "F", "reliable_receives", "size_bytes", "qps"),
    Sized(M.TRANSLATION_CACHE, "F", "translation_cache", "entries", "mrs_per_qp"),
    Sized(M.CONTEXT_CACHE, "F", "context_cache", "entries", "qps"),
    Sized(M.STRICT_ORDERING, "F", "pcie", "bulk_segment_bytes", "bulk_segment"),
    Sized(M.ACKNOWLEDGEMENT_BLOCKING, "F", "acknowledgements", "contexts", "qps"),
    Sized(
        M.ACKNOWLEDGEMENT_BLOCKING, "F", "acknowledgements", "burst_messages", "wqe_batch", changes=_DEEP, limit=16384
    ),
    Sized(M.LOOPBACK_INCAST, "F", "engine", "streamed_message_bytes", "message_bytes"),
    # With twice the room no more queue pairs take their turn at once.
    Sized(M.TRANSMIT_STAGING, "H", "transmit_staging", "size_bytes", "qps", factors=(0.25, 0.5, 1.0)),
    Sized(M.DATAGRAM_RECEIVE_CACHE, "H", "datagram_receives", "size_bytes", "qps"),
    Sized(M.PENDING_READS, "H", "reads", "pending_requests", "qps"),
    Sized(M.RELIABLE_RECEIVE_CACHE, "H", "reliable_receives", "size_bytes", "qps"),
    Sized(M.DUPLEX_ARBITER, "H", "arbiter", "queue_pairs", "qps"),
    Sized(M.DUPLEX_ARBITER, "H", "arbiter", "burst_wqes", "wqe_batch", changes=_DEEP, limit=16384),
)
"""Every mechanism that a count, a size or a rate limits."""


def threshold(sized: Sized, subsystem: SubsystemFile, space: Space, factor: float) -> int | None:
    """Return where the anomaly begins when the parameter is multiplied.

    Args:
        sized: parameter, dimension and where to start.
        subsystem: the file that `sized` names.
        space: gives the plain values of siblings.
        factor: on the parameter.

    Returns:
        The least anomalous value of the dimension; None where there is none.
    """
    part = getattr(subsystem, sized.part)
    amount = round(getattr(part, sized.parameter) * factor)
    truth = Truth(subsystem.with_part(sized.part, **{sized.parameter: amount}), space)
    witness = next(witness for witness in subsystem.witnesses if witness.mechanism is sized.mechanism)
    trigger = witness.trigger.with_(**sized.changes)

    def anomalous(size: int) -> bool:
        return sized.mechanism in truth.costs(_at(trigger, sized.dimension, size))

    return _first(anomalous, sized.limit)


def _at(trigger: Workload, dimension: str, size: int) -> Workload:
    if dimension == "message_bytes":
        return trigger.with_(messages=(size,), mr_bytes=max(size, trigger.mr_bytes))
    if dimension == "bulk_segment":
        return trigger.with_(sge_split=(128, size), messages=(128 + size + 1024,))
    return trigger.with_(**{dimension: size})


def _first(anomalous: Callable[[int], bool], limit: int) -> int | None:
    """Return the least anomalous size: up in powers of two, then down to the value by bisection."""
    high = 1
    while not anomalous(high):
        high *= 2
        if high > limit:
            return None
    low = high // 2
    while high - low > max(1, high // 256):
        middle = (low + high) // 2
        low, high = (low, middle) if anomalous(middle) else (middle, high)
    return high
