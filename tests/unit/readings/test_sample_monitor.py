"""What a host receives and sends while a run is under way, whichever end of its flows counts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from collie.counters.catalog import Catalog
from collie.detect.measurement import Sample
from collie.readings.recording import Recording
from collie.readings.sample_monitor import SampleMonitor
from collie.readings.samples import AgentSample, FlowTotals, QpMessages
from collie.readings.victim import victim_flow
from collie.workloads.plan import Flow, flows
from collie.workloads.workload import Opcode, QpType, Workload

PERIOD = 0.25
NOTHING = Catalog("nothing", ())

Counted = tuple[float | None, float | None]
"""What one end of a flow counts as delivered, and as returned, in bits/s."""

Ends = Mapping[str, Mapping[str, Counted]]
"""By host, what its ends of flows count."""


def totals(counted: Counted, seconds: float) -> FlowTotals:
    delivered, returned = (None if bps is None else round(bps * seconds / 8) for bps in counted)
    return FlowTotals(None, delivered, QpMessages(0, 0, 0), 0, returned)


def recorded(ends: Ends) -> Recording:
    """Two samples of each host."""
    return Recording(
        {
            role: [
                AgentSample(t, 500.0 + t, {key: totals(one, t) for key, one in own.items()}, None, {}, 0)
                for t in (0.0, PERIOD)
            ]
            for role, own in ends.items()
        },
        500.0,
    )


def seen(plan: Sequence[Flow], ends: Ends) -> dict[str, Counted]:
    """What each host receives and sends in its newest sample, all having spoken."""
    samples: list[Sample] = []
    monitor = SampleMonitor(lambda sample: samples.append(sample), NOTHING, plan)
    monitor.show(recorded(ends))
    return {sample.host: (sample.values["delivered_bps"], sample.values["sent_bps"]) for sample in samples}


UNKNOWN: Counted = (None, None)


def test_a_sink_to_which_three_write_receives_what_they_count() -> None:
    plan = flows(Workload(opcode=Opcode.WRITE, requesters=3))
    own = {role: {f"{role}-b/requester": (bps, None)} for role, bps in (("a", 4e9), ("c", 5e9), ("d", 6e9))}
    sink = {f"{role}-b/responder": UNKNOWN for role in "acd"}
    assert seen(plan, {**own, "b": sink}) == {
        "a": (None, 4e9),
        "c": (None, 5e9),
        "d": (None, 6e9),
        "b": (15e9, None),
    }


def test_a_source_that_sends_to_three_sends_what_they_count() -> None:
    plan = flows(Workload(opcode=Opcode.SEND, responders=3))
    own = {role: {f"a-{role}/responder": (4e9, None)} for role in "bcd"}
    source = {f"a-{role}/requester": UNKNOWN for role in "bcd"}
    assert seen(plan, {**own, "a": source})["a"] == (None, 12e9)


def test_both_ways_of_a_mixed_flow_count_each_at_its_end() -> None:
    plan = flows(Workload(qp_type=QpType.RC, opcode=Opcode.WRITE, more_opcodes=(Opcode.READ,)))
    ends: Ends = {"a": {"a-b/requester": (3e9, 7e9)}, "b": {"a-b/responder": UNKNOWN}}
    assert seen(plan, ends) == {"a": (7e9, 3e9), "b": (3e9, 7e9)}
    alone = flows(Workload(opcode=Opcode.WRITE, more_opcodes=(Opcode.READ,), remote=False, loopback=True))
    assert seen(alone, {"a": {"a-a/requester": (3e9, 7e9)}}) == {"a": (10e9, 10e9)}


def test_loopback_is_received_and_sent_and_a_victim_counts() -> None:
    workload = Workload(opcode=Opcode.WRITE, loopback=True)
    plan = (*flows(workload), victim := victim_flow(workload))
    ends: Ends = {
        "a": {"a-b/requester": (1e9, None), f"{victim.name}/requester": (4e9, None)},
        "b": {"b-b/requester": (2e9, None), "b-b/responder": UNKNOWN},
    }
    assert seen(plan, ends) == {"a": (None, 5e9), "b": (7e9, 2e9)}


def test_the_newest_rate_of_a_peer_that_is_silent_goes_on_counting() -> None:
    plan = flows(Workload(opcode=Opcode.WRITE))
    own = {"a-b/requester": (4e9, None)}
    both = recorded({"a": own, "b": {}})
    samples: list[Sample] = []
    monitor = SampleMonitor(lambda sample: samples.append(sample), NOTHING, plan)
    monitor.show(both)
    later = AgentSample(2 * PERIOD, 500.0 + 2 * PERIOD, {}, None, {}, 0)
    monitor.show(Recording({**both.samples, "b": [*both.samples["b"], later]}, 500.0))
    assert [(sample.host, sample.values["delivered_bps"]) for sample in samples] == [
        ("a", None),
        ("b", 4e9),
        ("b", 4e9),
    ]


def test_nothing_is_shown_after_a_reason_to_stop() -> None:
    shown: list[Sample] = []

    def watch(sample: Sample) -> str | None:
        shown.append(sample)
        return f"host {sample.host}"

    monitor = SampleMonitor(watch, NOTHING, ())
    recording = recorded({"a": {}, "b": {}})
    assert [monitor.show(recording), monitor.show(recording)] == ["host a", "host a"]
    assert len(shown) == 1
    assert SampleMonitor(None, NOTHING, ()).show(recording) is None


def test_samples_of_one_moment_have_no_rate() -> None:
    shown: list[Sample] = []
    monitor = SampleMonitor(lambda sample: shown.append(sample), NOTHING, flows(Workload()))
    own = [AgentSample(0.0, 500.0, {"a-b/requester": totals((bps, None), 1.0)}) for bps in (1e9, 2e9)]
    monitor.show(Recording({"a": own}, 500.0))
    assert [sample.values["sent_bps"] for sample in shown] == [None]


@pytest.mark.parametrize("way", ["delivered", "returned"])
def test_what_no_end_counts_is_unknown(way: str) -> None:
    plan = flows(Workload(opcode=Opcode.WRITE, more_opcodes=(Opcode.READ,) if way == "returned" else ()))
    assert seen(plan, {"a": {"a-b/requester": UNKNOWN}, "b": {}}) == {"a": UNKNOWN, "b": UNKNOWN}
