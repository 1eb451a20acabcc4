"""Whether the traffic generator, rather than the device, decided how fast a run went (DESIGN 8.5). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collie.detect.measurement import GeneratorHealth
from collie.hosts.samples import AgentSample
from collie.workloads.plan import Flow, flows
from collie.workloads.workload import Workload

BUSY_IDLE_RATIO = 0.1
"""A generator with less than this share of polls that found nothing has no CPU time to spare."""
OFTEN_EMPTY_RATIO = 0.1
"""Share of posted rounds (`signal_every` chains) that found their send queue empty."""
SHORT_QUEUE_ROUNDS = 4
"""A queue of so few rounds is empty between any two completions, whoever is slow: its emptiness proves nothing."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What the generator of one host did during the window; None where nothing can be said.

    Attributes:
        idle_poll_ratio: polls that found nothing.
        empty_queue_ratio: posted rounds that found the send queue empty; None on a host that only responds.
    """

    idle_poll_ratio: float | None
    empty_queue_ratio: float | None


def generator_health(workload: Workload, window: Mapping[str, Sequence[AgentSample]]) -> GeneratorHealth:
    """Judge the generator on both hosts.

    Args:
        workload: what ran.
        window: by role, the samples of the stable part of the run.
    """
    plan = flows(workload)
    activities = {role: _activity(role, samples, plan, workload) for role, samples in window.items()}
    idle = [a.idle_poll_ratio for a in activities.values() if a.idle_poll_ratio is not None]
    empty = [a.empty_queue_ratio for a in activities.values() if a.empty_queue_ratio is not None]
    reasons = [reason for role, activity in activities.items() if (reason := _why_slow(role, activity, workload))]
    return GeneratorHealth(
        driven=not reasons,
        reason="; ".join(reasons),
        idle_poll_ratio=min(idle, default=None),
        empty_queue_ratio=max(empty, default=None),
        completion_errors=_errors(window),
        qp_rate_ratio=_fairness(plan, window) if workload.qps > 1 else None,
    )


def _activity(role: str, samples: Sequence[AgentSample], plan: Sequence[Flow], workload: Workload) -> Activity:
    if len(samples) < 2 or (first := samples[0].engine) is None or (last := samples[-1].engine) is None:
        return Activity(None, None)
    iterations = last.iterations - first.iterations
    idle = (last.idle_polls - first.idle_polls) / iterations if iterations > 0 else None
    keys = [f"{flow.name}/requester" for flow in plan if flow.requester == role]
    posted = sum(_posted(samples[-1], key) - _posted(samples[0], key) for key in keys)
    rounds = posted / (workload.wqe_batch * workload.signal_every)
    empty = min(1.0, (last.queue_empty - first.queue_empty) / rounds) if rounds > 0 else None
    return Activity(idle, empty)


def _posted(sample: AgentSample, key: str) -> int:
    flow = sample.flows.get(key)
    return flow.posted_messages or 0 if flow else 0


def _why_slow(role: str, activity: Activity, workload: Workload) -> str:
    idle, empty = activity.idle_poll_ratio, activity.empty_queue_ratio
    if idle is None or idle >= BUSY_IDLE_RATIO:
        return ""
    short = workload.send_wq_depth // (workload.wqe_batch * workload.signal_every) < SHORT_QUEUE_ROUNDS
    if empty is not None and empty > OFTEN_EMPTY_RATIO and not short:
        return (
            f"host {role}: {empty:.0%} of the posts found the send queue empty while the CPU was busy ({idle:.0%} idle)"
        )
    return ""


def _errors(window: Mapping[str, Sequence[AgentSample]]) -> dict[str, int]:
    errors: dict[str, int] = {}
    for samples in window.values():
        engine = samples[-1].engine if samples else None
        for name, count in (engine.errors if engine else {}).items():
            errors[name] = errors.get(name, 0) + count
        if engine and engine.post_errors:
            errors["post refused"] = errors.get("post refused", 0) + engine.post_errors
    return errors


def _fairness(plan: Sequence[Flow], window: Mapping[str, Sequence[AgentSample]]) -> float | None:
    """Return slowest over fastest queue pair since the start, of the least fair flow, as its requester saw it."""
    ratios = []
    for flow in plan:
        samples = window.get(flow.requester)
        totals = samples[-1].flows.get(f"{flow.name}/requester") if samples else None
        if totals and totals.fastest_qp_messages > 0:
            ratios.append(totals.slowest_qp_messages / totals.fastest_qp_messages)
    return min(ratios, default=None)
