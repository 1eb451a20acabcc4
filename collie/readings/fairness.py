"""Whether the queue pairs of a flow get equal service. Pure.

Thousands of queue pairs do not fit into a sample, so an agent reports the minimum, mean and maximum of their messages
since preparation. Over a window the minimum grows at least as much as the slowest queue pair, which is last at the end
and was no further behind at the beginning. So the share is an upper bound: a queue pair reported as starved is starved,
and one that starves after a lead may be missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from collie.readings.samples import AgentSample
from collie.workloads.plan import Flow
from collie.workloads.workload import Workload

MIN_QPS = 4
"""Among fewer queue pairs, one is no exception."""
MIN_TURNS = 4
"""Full send queues per queue pair in a usable window. A device may serve one queue to its end before the next."""


def slowest_qp_share(
    workload: Workload, plan: Sequence[Flow], window: Mapping[str, Sequence[AgentSample]]
) -> float | None:
    """Return the slowest queue pair's progress over its flow's mean, for the least fair flow in the window.

    It is an upper bound. None with few queue pairs, or too few messages to compare them.
    """
    if workload.qps < MIN_QPS:
        return None
    enough = MIN_TURNS * max(workload.send_wq_depth, workload.wqe_batch * workload.signal_every)
    shares = [slowest / mean for slowest, mean in _growth(plan, window) if mean >= enough]
    return min(shares, default=None)


def _growth(plan: Sequence[Flow], window: Mapping[str, Sequence[AgentSample]]) -> Iterator[tuple[float, float]]:
    """Yield (slowest, mean) growth in messages for each end of a flow."""
    ends = [(flow.requester, f"{flow.name}/requester") for flow in plan]
    ends += [(flow.responder, f"{flow.name}/responder") for flow in plan]
    for role, key in ends:
        totals = [sample.flows[key] for sample in window.get(role, ()) if key in sample.flows]
        if len(totals) > 1 and totals[0].mean_qp_messages is not None and totals[-1].mean_qp_messages is not None:
            slowest = totals[-1].slowest_qp_messages - totals[0].slowest_qp_messages
            yield slowest, totals[-1].mean_qp_messages - totals[0].mean_qp_messages
