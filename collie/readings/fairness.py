"""Whether the queue pairs of a flow get their turns. Pure.

An agent tells the least, the mean and the most that the queue pairs of one end have done since they were prepared, not
what each of them did: thousands of queue pairs would not fit into a sample. Over a window the least grows by at least
as much as the slowest queue pair does: the one that is last at the end was no further back at the beginning. So a share
that is taken from it can only be too large. What it calls starved is starved; what starts to starve late, after a lead,
it may miss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from collie.readings.samples import AgentSample
from collie.workloads.plan import Flow
from collie.workloads.workload import Workload

MIN_QPS = 4
"""With fewer queue pairs, one of them is no exception among many."""
MIN_TURNS = 4
"""Send queues, each as deep as it is, that a queue pair works off on average in a window that tells anything: a device
may well serve one queue to its end before it turns to the next."""


def slowest_qp_share(
    workload: Workload, plan: Sequence[Flow], window: Mapping[str, Sequence[AgentSample]]
) -> float | None:
    """Return what the slowest queue pair of the least fair flow did in the window, over the mean of its flow.

    Args:
        workload: what ran.
        plan: its flows.
        window: by role, the samples of the stable part of the run.

    Returns:
        At most that share; None with few queue pairs, or when they had too few turns to be compared.
    """
    if workload.qps < MIN_QPS:
        return None
    enough = MIN_TURNS * max(workload.send_wq_depth, workload.wqe_batch * workload.signal_every)
    shares = [slowest / mean for slowest, mean in _growth(plan, window) if mean >= enough]
    return min(shares, default=None)


def _growth(plan: Sequence[Flow], window: Mapping[str, Sequence[AgentSample]]) -> Iterator[tuple[float, float]]:
    """Yield by how many messages the slowest queue pair of each end of a flow, and the mean, advanced."""
    ends = [(flow.requester, f"{flow.name}/requester") for flow in plan]
    ends += [(flow.responder, f"{flow.name}/responder") for flow in plan]
    for role, key in ends:
        totals = [sample.flows[key] for sample in window.get(role, ()) if key in sample.flows]
        if len(totals) > 1 and totals[0].mean_qp_messages is not None and totals[-1].mean_qp_messages is not None:
            slowest = totals[-1].slowest_qp_messages - totals[0].slowest_qp_messages
            yield slowest, totals[-1].mean_qp_messages - totals[0].mean_qp_messages
