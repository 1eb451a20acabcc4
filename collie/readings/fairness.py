"""Service of the queue pairs of a flow. Pure.

A sample holds the minimum, mean and maximum of their messages. Over a window the minimum grows at least as much as the
slowest queue pair, which is last at the end and was no further behind at the beginning. So the slowest queue pair's
share is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from collie.readings.samples import AgentSample
from collie.workloads.plan import Flow
from collie.workloads.workload import Workload

_MIN_QPS = 4
"""Among fewer queue pairs, one is no exception."""
_MIN_TURNS = 4
"""Full send queues per queue pair. A device may serve one queue to its end before the next."""


def slowest_qp_share(
    workload: Workload, plan: Sequence[Flow], window: Mapping[str, Sequence[AgentSample]]
) -> float | None:
    """Return the slowest queue pair's messages over the mean of its flow, for the least fair flow, if enough."""
    if workload.qps < _MIN_QPS:
        return None
    enough = _MIN_TURNS * max(workload.send_wq_depth, workload.wqe_batch * workload.signal_every)
    shares = [slowest / mean for slowest, mean in _growth(plan, window) if mean >= enough]
    return min(shares, default=None)


def _growth(plan: Sequence[Flow], window: Mapping[str, Sequence[AgentSample]]) -> Iterator[tuple[float, float]]:
    """Yield (slowest, mean) growth in messages for each end of a flow."""
    ends = [(flow.requester, f"{flow.name}/requester") for flow in plan]
    ends += [(flow.responder, f"{flow.name}/responder") for flow in plan]
    for role, key in ends:
        totals = [sample.flows[key] for sample in window.get(role, ()) if key in sample.flows]
        if len(totals) > 1:
            before, after = totals[0].qp_messages, totals[-1].qp_messages
            yield after.min - before.min, after.mean - before.mean
