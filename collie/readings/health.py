"""Whether the traffic generator, rather than the device, decided how fast a run went. Pure.

Two things say so:

1. Send queues ran empty while the generator was busy all the time: it could post no faster.
2. Other processes had the CPU that it needed. A generator beside a NIC needed one when it was ready to run and waited.
   Waiting alone says nothing: on one CPU it waits for the kernel's own work on its traffic, too, and that belongs to
   the device. Neither does what other processes take on other CPUs, while the generator waits for none. Both together
   still leave a NIC with full send queues enough to do; so they count where queues ran empty and where the host has to
   post receives. A software device lives on the CPU like everything else: there it is enough that other processes took
   some of it and none was left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collie.detect.measurement import GeneratorHealth
from collie.readings import victim
from collie.readings.fairness import slowest_qp_share
from collie.readings.samples import AgentSample
from collie.workloads.plan import Flow, flows
from collie.workloads.workload import Workload

BUSY_IDLE_RATIO = 0.1
"""A generator with less than this share of polls that found nothing has no CPU time to spare."""
OFTEN_EMPTY_RATIO = 0.1
"""Share of posted rounds (`signal_every` chains) that found their send queue empty."""
SHORT_QUEUE_ROUNDS = 4
"""A queue of so few rounds is empty between any two completions, whoever is slow: its emptiness proves nothing."""

WAITING_RATIO = 0.2
"""Share of the time that a generator may wait for a CPU. A scheduler lets it wait a little for every sample taken."""
FOREIGN_CPUS = 0.2
"""CPUs that other processes may take. Measured on emulated machines: up to 0.1 with nothing but the agent and its SSH
connection, 0.4 to 0.5 with a busy loop beside the traffic, 0.6 to 0.7 with three."""
SPARE_CPUS = 0.1
"""A host that leaves fewer CPUs idle than that had none to spare."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What the generator of one host did during the window; None where nothing can be said.

    Attributes:
        idle_poll_ratio: polls that found nothing.
        empty_queue_ratio: posted rounds that found the send queue empty; None on a host that only responds.
        waiting_ratio: share of the time for which it was ready to run and had no CPU.
        foreign_cpus: CPUs that other processes took, on average; at least, as some of the kernel's work is counted as
            the generator's.
        spare_cpus: CPUs that nothing ran on, on average.
        queue_fill_ratio: how full send queues still were when filled again, a victim's included; None on a host that
            only responds.
        data_path: what drove traffic.
        posts_receives: whether messages need receives that it posts.
    """

    idle_poll_ratio: float | None = None
    empty_queue_ratio: float | None = None
    waiting_ratio: float | None = None
    foreign_cpus: float | None = None
    spare_cpus: float | None = None
    queue_fill_ratio: float | None = None
    data_path: str | None = None
    posts_receives: bool = False


def generator_health(
    workload: Workload,
    window: Mapping[str, Sequence[AgentSample]],
    *,
    software: bool = False,
    machines: Mapping[str, str] | None = None,
) -> GeneratorHealth:
    """Judge the generator on both hosts.

    Args:
        workload: what ran.
        window: by role, the samples of the stable part of the run.
        software: the device is the host's own CPU.
        machines: by role, the host that it is on; without it each is on its own.
    """
    plan = flows(workload)
    activities = {
        role: _activity(role, samples, plan, workload, list(_beside(role, window, machines or {})))
        for role, samples in window.items()
    }
    idle = [a.idle_poll_ratio for a in activities.values() if a.idle_poll_ratio is not None]
    empty = [a.empty_queue_ratio for a in activities.values() if a.empty_queue_ratio is not None]
    waiting = [a.waiting_ratio for a in activities.values() if a.waiting_ratio is not None]
    fill = [a.queue_fill_ratio for a in activities.values() if a.queue_fill_ratio is not None]
    reasons = [
        f"host {role}: {reason}"
        for role, activity in activities.items()
        if (reason := _why_starved(activity, software=software) or _why_slow(activity, workload))
    ]
    return GeneratorHealth(
        driven=not reasons,
        reason="; ".join(reasons),
        idle_poll_ratio=min(idle, default=None),
        empty_queue_ratio=max(empty, default=None),
        completion_errors=_errors(window),
        qp_rate_ratio=_fairness(plan, window) if workload.qps > 1 else None,
        slowest_qp_share=slowest_qp_share(workload, plan, window),
        cpu_wait_ratio=max(waiting, default=None),
        data_path=", ".join(sorted({a.data_path for a in activities.values() if a.data_path})) or None,
        queue_fill_ratio=min(fill, default=None),
    )


def _beside(
    role: str, window: Mapping[str, Sequence[AgentSample]], machines: Mapping[str, str]
) -> Iterator[Sequence[AgentSample]]:
    """Yield the samples of the other agents of this run on a role's host: theirs are no foreign processes."""
    for other, samples in window.items():
        if other != role and role in machines and machines[role] == machines.get(other):
            yield samples


def _activity(
    role: str,
    samples: Sequence[AgentSample],
    plan: Sequence[Flow],
    workload: Workload,
    beside: Sequence[Sequence[AgentSample]],
) -> Activity:
    if len(samples) < 2 or (first := samples[0].engine) is None or (last := samples[-1].engine) is None:
        return Activity()
    iterations = last.iterations - first.iterations
    idle = (last.idle_polls - first.idle_polls) / iterations if iterations > 0 else None
    keys = [f"{flow.name}/requester" for flow in plan if flow.requester == role]
    posted = sum(_posted(samples[-1], key) - _posted(samples[0], key) for key in keys)
    rounds = posted / (workload.wqe_batch * workload.signal_every)
    # The engine counts over all send queues, a victim's among them, whose rounds are of one request.
    rounds += _posted(samples[-1], victim.REQUESTER) - _posted(samples[0], victim.REQUESTER)
    empty = min(1.0, (last.queue_empty - first.queue_empty) / rounds) if rounds > 0 else None
    limit = last.queue_limit - first.queue_limit
    fill = (last.queue_outstanding - first.queue_outstanding) / limit if limit > 0 else None
    waiting, busy, spare = (_per_second(quantity, samples) for quantity in (_waited, _busy, _spare))
    ours = [_per_second(_ours, each) for each in (samples, *beside)]
    foreign = None if busy is None or None in ours else max(0.0, busy - _miscounted(samples) - sum(filter(None, ours)))
    responds = any(flow.responder == role for flow in plan)
    receives = responds and any(opcode.consumes_receive for opcode in workload.opcodes)
    return Activity(idle, empty, waiting, foreign, spare, fill, last.data_path, receives)


def _per_second(quantity: Callable[[AgentSample], float | None], samples: Sequence[AgentSample]) -> float | None:
    """Return how fast a quantity grew, at least 0: clocks of different grain make small ones seem to shrink."""
    if len(samples) < 2:
        return None
    begin, end = quantity(samples[0]), quantity(samples[-1])
    seconds = samples[-1].clock - samples[0].clock
    return None if begin is None or end is None or seconds <= 0 else max(0.0, (end - begin) / seconds)


def _waited(sample: AgentSample) -> float | None:
    return sample.engine.wait_seconds if sample.engine else None


def _busy(sample: AgentSample) -> float | None:
    """Return what all processes of the host have run since boot, in seconds; None when unknown.

    Without the threads in which a software device may work: they are the host's, whichever device of it works there.
    """
    user, system = (sample.host_cpu_seconds.get(kind) for kind in ("user", "system"))
    return None if user is None or system is None else user + system - sample.device_cpu_seconds


def _miscounted(samples: Sequence[AgentSample]) -> float:
    """Return the CPUs that soft interrupts for a software device took and that the host counts as processes'.

    A clock tick can find `ksoftirqd` outside of a soft interrupt and count as `system` what it did since the last one.
    What it took beyond all that counts as soft interrupts is counted so.
    """
    threads = _per_second(lambda sample: sample.softirq_thread_cpu_seconds, samples) or 0.0
    counted = _per_second(lambda sample: sample.host_cpu_seconds.get("softirq"), samples) or 0.0
    return max(0.0, threads - counted)


def _ours(sample: AgentSample) -> float | None:
    """Return what the generator and its agent have run, in seconds; None when unknown."""
    generator = sample.engine.cpu_seconds if sample.engine else None
    return None if generator is None else generator + sample.agent_cpu_seconds


def _spare(sample: AgentSample) -> float | None:
    return sample.host_cpu_seconds.get("idle")


def _posted(sample: AgentSample, key: str) -> int:
    flow = sample.flows.get(key)
    return flow.posted_messages or 0 if flow else 0


def _why_slow(activity: Activity, workload: Workload) -> str:
    idle, empty = activity.idle_poll_ratio, activity.empty_queue_ratio
    if idle is None or idle >= BUSY_IDLE_RATIO:
        return ""
    short = workload.send_wq_depth // (workload.wqe_batch * workload.signal_every) < SHORT_QUEUE_ROUNDS
    if empty is not None and empty > OFTEN_EMPTY_RATIO and not short:
        return f"{empty:.0%} of the posts found the send queue empty while the CPU was busy ({idle:.0%} idle)"
    return ""


def _why_starved(activity: Activity, *, software: bool) -> str:
    waiting, foreign, empty = activity.waiting_ratio, activity.foreign_cpus, activity.empty_queue_ratio
    if foreign is None or foreign <= FOREIGN_CPUS:
        return ""
    took = f"other processes took {foreign:.0%} of a CPU"
    if software and activity.spare_cpus is not None and activity.spare_cpus < SPARE_CPUS:
        return f"{took} and left none to spare for the software device"
    ran_empty = empty is not None and empty > OFTEN_EMPTY_RATIO
    if waiting is not None and waiting > WAITING_RATIO and (ran_empty or activity.posts_receives):
        return f"{took} while the generator waited for one for {waiting:.0%} of the time"
    return ""


def has_errors(sample: AgentSample) -> bool:
    """Whether any completion came with an error so far, or the device refused a post: whoever's they are."""
    return sample.engine is not None and (bool(sample.engine.errors) or sample.engine.post_errors > 0)


def _errors(window: Mapping[str, Sequence[AgentSample]]) -> dict[str, int]:
    """Return the workload's errors: all of a host's, unless no queue pair but a victim's failed there."""
    errors: dict[str, int] = {}
    for samples in window.values():
        engine = samples[-1].engine if samples and not victim.failed_alone(samples[-1]) else None
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
