"""The health of the traffic generator. Pure.

The generator, not the device, limited a run in two cases:

1. Send queues ran empty while it was busy. An offered load leaves them empty, so it must also have posted less.
2. Other processes took the CPU that it needed. With a NIC it must also have waited for a CPU, and queues must have run
   empty, or the host must post receives or have an end of the victim. With a software device it suffices that no CPU
   was idle.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from collie.detect.measurement import GeneratorHealth
from collie.readings import victim
from collie.readings.samples import AgentSample
from collie.workloads.constraint import largest_round_bytes
from collie.workloads.plan import HOST_A, HOST_B, Flow, flows
from collie.workloads.workload import Workload

_BUSY_IDLE_RATIO = 0.1
"""A busy generator has a smaller share of empty polls."""
_OFTEN_EMPTY_RATIO = 0.1
"""Share of posted rounds (of `signal_every` chains) that found the send queue empty."""
_OFF_LOAD_RATIO = 0.05
"""Share of the offered bytes by which the posted ones differ from them, beyond one round."""
_SHORT_QUEUE_ROUNDS = 4
"""Shorter queues run empty between completions anyway."""

_WAITING_RATIO = 0.2
"""Some waiting is normal, because the scheduler delays a generator for every sample."""
_FOREIGN_CPUS = 0.2
"""Emulated machines show 0.1 with the agent and its SSH connection, 0.4 to 0.5 with one busy loop beside the traffic,
0.6 to 0.7 with three.
"""
_SPARE_CPUS = 0.1

_MIN_QPS = 4
"""With fewer queue pairs, a slow one is no exception."""
_MIN_TURNS = 4
"""Full send queues per queue pair, on average. A device may serve one queue to its end before the next."""


@dataclass(frozen=True, slots=True)
class _Activity:
    """Activity of one host's generator during the window. None means unknown.

    Attributes:
        empty_queue_ratio: share of posted rounds that found the send queue empty.
        waiting_ratio: share of the time in which the generator was ready to run and had no CPU.
        foreign_cpus: CPUs of other processes. A lower bound, as some of the kernel's work counts as the generator's.
        is_timed: whether the host must not come late: it posts receives, or has an end of the victim.
        round_ratio: share of the offered bytes that the largest round has. A window holds a whole number of rounds.
    """

    idle_poll_ratio: float | None = None
    empty_queue_ratio: float | None = None
    waiting_ratio: float | None = None
    foreign_cpus: float | None = None
    spare_cpus: float | None = None
    queue_fill_ratio: float | None = None
    data_path: str | None = None
    is_timed: bool = False
    pacing_error_ratio: float | None = None
    round_ratio: float = 0.0


def generator_health(
    workload: Workload,
    window: Mapping[str, Sequence[AgentSample]],
    *,
    software: bool = False,
    machines: Mapping[str, str] | None = None,
) -> GeneratorHealth:
    """Judge the generator on all hosts. With `software` the device runs on the CPU."""
    plan = flows(workload)
    activities = {
        role: _activity(role, samples, plan, workload, _beside(role, window, machines or {}))
        for role, samples in window.items()
    }
    all_hosts = activities.values()
    starved = {role: _why_starved(activity, software=software) for role, activity in activities.items()}
    reasons = [
        f"host {role}: {reason}"
        for role, activity in activities.items()
        if (reason := starved[role] or _why_slow(activity, workload))
    ]
    return GeneratorHealth(
        driven=not reasons,
        reason="; ".join(reasons),
        idle_poll_ratio=min(_known(a.idle_poll_ratio for a in all_hosts), default=None),
        empty_queue_ratio=max(_known(a.empty_queue_ratio for a in all_hosts), default=None),
        completion_errors=_errors(window),
        qp_rate_ratio=_fairness(plan, window) if workload.qps > 1 else None,
        slowest_qp_share=_slowest_qp_share(workload, plan, window),
        slowest_flow_share=_slowest_flow_share(workload, plan, window),
        cpu_wait_ratio=max(_known(a.waiting_ratio for a in all_hosts), default=None),
        data_path=", ".join(sorted({a.data_path for a in all_hosts if a.data_path})) or None,
        queue_fill_ratio=min(_known(a.queue_fill_ratio for a in all_hosts), default=None),
        pacing_error_ratio=max(_known(a.pacing_error_ratio for a in all_hosts), default=None),
        starved=any(starved.values()),
    )


def _known(ratios: Iterable[float | None]) -> Iterator[float]:
    return (ratio for ratio in ratios if ratio is not None)


def _beside(
    role: str, window: Mapping[str, Sequence[AgentSample]], machines: Mapping[str, str]
) -> list[Sequence[AgentSample]]:
    on_same_host = {other for other in machines if machines[other] == machines.get(role)} - {role}
    return [samples for other, samples in window.items() if other in on_same_host]


def _activity(
    role: str,
    samples: Sequence[AgentSample],
    plan: Sequence[Flow],
    workload: Workload,
    beside: Sequence[Sequence[AgentSample]],
) -> _Activity:
    if len(samples) < 2 or (first := samples[0].engine) is None or (last := samples[-1].engine) is None:
        return _Activity()
    iterations = last.iterations - first.iterations
    idle = (last.idle_polls - first.idle_polls) / iterations if iterations > 0 else None
    keys = [f"{flow.name}/requester" for flow in plan if flow.requester == role]
    posted = sum(_posted(samples[-1], key) - _posted(samples[0], key) for key in keys)
    rounds = posted / (workload.wqe_batch * workload.signal_every)
    empty = min(1.0, (last.queue_empty - first.queue_empty) / rounds) if rounds > 0 else None
    limit = last.queue_limit - first.queue_limit
    fill = (last.queue_outstanding - first.queue_outstanding) / limit if limit > 0 else None
    waiting, busy, spare = (_per_second(quantity, samples) for quantity in (_waited, _busy, _spare))
    ours = [_per_second(_ours, each) for each in (samples, *beside)]
    foreign = None if busy is None or None in ours else max(0.0, busy - _miscounted(samples) - sum(filter(None, ours)))
    responds = any(flow.responder == role for flow in plan)
    receives = responds and any(opcode.consumes_receive for opcode in workload.opcodes)
    has_victim = not samples[-1].flows.keys().isdisjoint((victim.REQUESTER, victim.RESPONDER))
    error = max(_known(_pacing_error(samples, key, workload) for key in keys), default=None)
    offered = _offered_bytes(samples, workload)
    return _Activity(
        idle,
        empty,
        waiting,
        foreign,
        spare,
        fill,
        last.data_path,
        is_timed=receives or has_victim,
        pacing_error_ratio=error,
        round_ratio=largest_round_bytes(workload) / offered if offered > 0 else 0.0,
    )


def _pacing_error(samples: Sequence[AgentSample], key: str, workload: Workload) -> float | None:
    """Return the difference between the posted and the offered bytes of a flow, over the offered ones."""
    first, last = samples[0].flows.get(key), samples[-1].flows.get(key)
    offered = _offered_bytes(samples, workload)
    if not first or not last or first.posted_bytes is None or last.posted_bytes is None or offered <= 0:
        return None
    return abs(last.posted_bytes - first.posted_bytes - offered) / offered


def _offered_bytes(samples: Sequence[AgentSample], workload: Workload) -> float:
    return workload.offered_bps / 8 * (samples[-1].clock - samples[0].clock)


def _per_second(quantity: Callable[[AgentSample], float | None], samples: Sequence[AgentSample]) -> float | None:
    """Return the growth rate of a quantity, at least 0. Clock resolution may make a small one appear to shrink."""
    if len(samples) < 2:
        return None
    begin, end = quantity(samples[0]), quantity(samples[-1])
    seconds = samples[-1].clock - samples[0].clock
    return None if begin is None or end is None or seconds <= 0 else max(0.0, (end - begin) / seconds)


def _waited(sample: AgentSample) -> float | None:
    return sample.engine.wait_seconds if sample.engine else None


def _busy(sample: AgentSample) -> float | None:
    """Return the CPU seconds of all processes except the kernel threads of software devices."""
    user, system = (sample.host.cpu_seconds.get(kind) for kind in ("user", "system"))
    return None if user is None or system is None else user + system - sample.host.device_cpu_seconds


def _miscounted(samples: Sequence[AgentSample]) -> float:
    """Return the CPUs of `ksoftirqd` counted as `system`, which happens at a clock tick outside a soft interrupt."""
    threads = _per_second(lambda sample: sample.host.softirq_thread_cpu_seconds, samples) or 0.0
    counted = _per_second(lambda sample: sample.host.cpu_seconds.get("softirq"), samples) or 0.0
    return max(0.0, threads - counted)


def _ours(sample: AgentSample) -> float | None:
    generator = sample.engine.cpu_seconds if sample.engine else None
    return None if generator is None else generator + sample.host.agent_cpu_seconds


def _spare(sample: AgentSample) -> float | None:
    return sample.host.cpu_seconds.get("idle")


def _posted(sample: AgentSample, key: str) -> int:
    flow = sample.flows.get(key)
    return flow.posted_messages or 0 if flow else 0


def _why_slow(activity: _Activity, workload: Workload) -> str:
    idle, empty = activity.idle_poll_ratio, activity.empty_queue_ratio
    if workload.offered_bps:
        error = activity.pacing_error_ratio
        is_off = error is not None and error > _OFF_LOAD_RATIO + activity.round_ratio
        if is_off and empty is not None and empty > _OFTEN_EMPTY_RATIO:
            return f"the posted load was {error:.0%} off, and {empty:.0%} of the posts found the send queue empty"
        return ""
    if idle is None or idle >= _BUSY_IDLE_RATIO:
        return ""
    short = workload.send_wq_depth // (workload.wqe_batch * workload.signal_every) < _SHORT_QUEUE_ROUNDS
    if empty is not None and empty > _OFTEN_EMPTY_RATIO and not short:
        return f"{empty:.0%} of the posts found the send queue empty while the CPU was busy ({idle:.0%} idle)"
    return ""


def _why_starved(activity: _Activity, *, software: bool) -> str:
    waiting, foreign, empty = activity.waiting_ratio, activity.foreign_cpus, activity.empty_queue_ratio
    if foreign is None or foreign <= _FOREIGN_CPUS:
        return ""
    took = f"other processes took {foreign:.0%} of a CPU"
    if software and activity.spare_cpus is not None and activity.spare_cpus < _SPARE_CPUS:
        return f"{took} and left none to spare for the software device"
    ran_empty = empty is not None and empty > _OFTEN_EMPTY_RATIO
    if waiting is not None and waiting > _WAITING_RATIO and (ran_empty or activity.is_timed):
        return f"{took} while the generator waited for one for {waiting:.0%} of the time"
    return ""


def has_errors(sample: AgentSample) -> bool:
    """Whether a completion or a post has failed so far, a victim's included."""
    return sample.engine is not None and (bool(sample.engine.errors) or sample.engine.post_errors > 0)


def _errors(window: Mapping[str, Sequence[AgentSample]]) -> dict[str, int]:
    """Return the errors of all hosts, except those where only a victim's queue pair failed."""
    errors: Tally[str] = Tally()
    for samples in window.values():
        engine = samples[-1].engine if samples and not victim.failed_alone(samples[-1]) else None
        if engine:
            errors.update(engine.errors)
            errors.update({"post refused": engine.post_errors} if engine.post_errors else {})
    return dict(errors)


def _fairness(plan: Sequence[Flow], window: Mapping[str, Sequence[AgentSample]]) -> float | None:
    """Return slowest over fastest queue pair, by messages since the start, for the least fair flow."""
    ratios = []
    for flow in plan:
        samples = window.get(flow.requester)
        totals = samples[-1].flows.get(f"{flow.name}/requester") if samples else None
        if totals and totals.qp_messages.max > 0:
            ratios.append(totals.qp_messages.min / totals.qp_messages.max)
    return min(ratios, default=None)


def _slowest_qp_share(
    workload: Workload, plan: Sequence[Flow], window: Mapping[str, Sequence[AgentSample]]
) -> float | None:
    """Return the slowest queue pair's messages over the mean of its flow, for the least fair flow with enough of them.

    A sample holds the minimum, mean and maximum of their messages. The queue pair that is last at the end of a window
    was not below the minimum at its beginning. So the minimum grows at least as much as the messages of this queue
    pair, and the share is an upper bound.
    """
    if workload.qps < _MIN_QPS:
        return None
    ends = [(flow.requester, f"{flow.name}/requester") for flow in plan]
    ends += [(flow.responder, f"{flow.name}/responder") for flow in plan]
    grown = filter(None, (_growth(*end, window) for end in ends))
    shares = [slowest / mean for slowest, mean in grown if mean >= _enough(workload)]
    return min(shares, default=None)


def _slowest_flow_share(
    workload: Workload, plan: Sequence[Flow], window: Mapping[str, Sequence[AgentSample]]
) -> float | None:
    """Return the slowest flow's messages over the mean of all flows to the same host, or from it, if they have enough.

    Several partners of one host compete for its port. With one partner there is nothing to compare.
    """
    if workload.partners == 1:
        return None
    shares = []
    for hub in (HOST_A, HOST_B):
        to_hub = [flow for flow in plan if flow.responder == hub and not flow.is_loopback]
        from_hub = [flow for flow in plan if flow.requester == hub and not flow.is_loopback]
        for competing in (to_hub, from_hub):
            grown = [_growth(flow.requester, f"{flow.name}/requester", window) for flow in competing]
            means = [each[1] for each in grown if each is not None]
            if len(means) == workload.partners and fmean(means) >= _enough(workload):
                shares.append(min(means) / fmean(means))
    return min(shares, default=None)


def _enough(workload: Workload) -> float:
    """Return the messages of a queue pair from which their number tells its rate."""
    return _MIN_TURNS * max(workload.send_wq_depth, workload.wqe_batch * workload.signal_every)


def _growth(role: str, end: str, window: Mapping[str, Sequence[AgentSample]]) -> tuple[float, float] | None:
    """Return the growth of an end of a flow in messages: of the slowest queue pair and the mean of all."""
    totals = [sample.flows[end] for sample in window.get(role, ()) if end in sample.flows]
    if len(totals) < 2:
        return None
    before, after = totals[0].qp_messages, totals[-1].qp_messages
    return after.min - before.min, after.mean - before.mean
