"""The simulated subsystems show the paper's anomalies at their triggers, and none of them with one condition broken."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from collie.content.anomalies import load_references
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.detect.symptom import Symptom
from collie.simulator.bottleneck import bottleneck
from collie.simulator.hardware import Subsystem
from collie.simulator.mechanism import Mechanism
from collie.simulator.model import evaluate
from collie.simulator.readings import COUNTERS, counters
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth
from collie.workloads.feature import Condition
from collie.workloads.reference import ReferenceAnomaly
from collie.workloads.workload import Direction, Memory, Opcode, QpType, Workload
from tests.support.leading import LEADING, leads
from tests.support.regions import broken, names
from tests.support.sized import SIZED, Sized, threshold
from tests.support.smoothness import steps

F = load_subsystem("F", SubsystemFile)
SPACE = load_space("nsdi22")
TRUTH = Truth(F, SPACE)
TRIGGERS = {witness.mechanism: witness.trigger for witness in F.witnesses}
REFERENCES = load_references("nsdi22")
M = Mechanism
MECHANISMS = {
    "nsdi22-01": M.DATAGRAM_PREFETCH,
    "nsdi22-02": M.DATAGRAM_RECEIVE_CACHE,
    "nsdi22-03": M.READ_SLOW_PATH,
    "nsdi22-04": M.READ_SCATTER_LISTS,
    "nsdi22-05": M.RELIABLE_PREFETCH,
    "nsdi22-06": M.RELIABLE_RECEIVE_CACHE,
    "nsdi22-07": M.TRANSLATION_CACHE,
    "nsdi22-08": M.CONTEXT_CACHE,
    "nsdi22-09": M.STRICT_ORDERING,
    "nsdi22-10": M.ACKNOWLEDGEMENT_BLOCKING,
    "nsdi22-11": M.SOCKET_LINK,
    "nsdi22-12": M.PEER_TO_PEER_REDIRECT,
    "nsdi22-13": M.LOOPBACK_INCAST,
    "nsdi22-14": M.TRANSMIT_STAGING,
    "nsdi22-15": M.DATAGRAM_RECEIVE_CACHE,
    "nsdi22-16": M.PENDING_READS,
    "nsdi22-17": M.RELIABLE_RECEIVE_CACHE,
    "nsdi22-18": M.DUPLEX_ARBITER,
}


def hardware(reference: ReferenceAnomaly) -> Subsystem:
    return load_subsystem(reference.subsystem, SubsystemFile).with_settings(reference.settings).hardware


@cache
def truth_of(subsystem: str, settings: tuple[tuple[str, str], ...]) -> Truth:
    return Truth(load_subsystem(subsystem, SubsystemFile).with_settings(dict(settings)), SPACE)


def truth(reference: ReferenceAnomaly) -> Truth:
    return truth_of(reference.subsystem, tuple(reference.settings.items()))


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.id)
def test_every_trigger_shows_the_papers_symptom(reference: ReferenceAnomaly) -> None:
    verdict = truth(reference).verdict(reference.trigger)
    assert verdict.symptom == Symptom(reference.symptom)
    assert truth(reference).mechanism(reference.trigger) is MECHANISMS[reference.id]
    state = evaluate(hardware(reference), reference.trigger)
    published, pause = reference.severity, max(state.pause_ratio())
    if reference.symptom == "low_throughput":
        assert pause == 0
    if published.pause_ratio:
        assert published.pause_ratio / 1.5 <= pause <= published.pause_ratio * 1.5
    if published.delivered_bps:
        assert published.delivered_bps / 1.5 <= max(state.delivered_bps()) <= published.delivered_bps * 1.5
    if published.throughput_deficit:
        line = hardware(reference).wire.line_rate_bps
        assert max(state.delivered_bps()) <= (1 - published.throughput_deficit) * line


BROKEN = [
    pytest.param(reference, workload, id=f"{reference.id}-{names(workload, reference.trigger, condition)}")
    for reference in REFERENCES
    for condition in reference.conditions.conditions
    for workload in broken(SPACE, reference.trigger, condition)
]


def test_every_condition_can_be_broken() -> None:
    conditions: list[tuple[ReferenceAnomaly, Condition]] = [
        (reference, condition) for reference in REFERENCES for condition in reference.conditions.conditions
    ]
    assert len(conditions) == 93
    assert all(broken(SPACE, reference.trigger, condition) for reference, condition in conditions)


@pytest.mark.parametrize(("reference", "workload"), BROKEN)
def test_a_broken_condition_ends_it(reference: ReferenceAnomaly, workload: Workload) -> None:
    assert MECHANISMS[reference.id] not in truth(reference).costs(workload)


@pytest.mark.parametrize("sized", SIZED, ids=lambda sized: f"{sized.subsystem}-{sized.part}.{sized.parameter}")
def test_the_threshold_moves_with_the_resource(sized: Sized) -> None:
    subsystem = load_subsystem(sized.subsystem, SubsystemFile)
    less, typical, more = (threshold(sized, subsystem, SPACE, factor) for factor in sized.factors)
    assert less
    assert typical
    assert more
    assert 1.5 <= typical / less <= 2.5
    assert 1.5 <= more / typical <= 2.5


@pytest.mark.parametrize(
    "change",
    [
        {"numa_node": 1, "peer_numa_node": 1},
        {"memory": Memory.GPU, "peer_memory": Memory.GPU, "numa_node": 1, "peer_numa_node": 1},
        {"mtu": 256, "qps": 64},
        {"sge_count": 16, "messages": (1024,), "direction": Direction.BIDIRECTIONAL, "opcode": Opcode.SEND, "qps": 64},
        {"messages": (64, 1 << 20, 64, 4096), "qps": 2048},
        {"opcode": Opcode.READ, "qps": 1, "send_wq_depth": 1, "messages": (64,)},
        {"qp_type": QpType.UD, "opcode": Opcode.SEND, "qps": 480, "messages": (64,)},
        {"opcode": Opcode.SEND, "qps": 20_000, "messages": (65536,)},
        {"send_wq_depth": 16384, "recv_wq_depth": 16384, "opcode": Opcode.SEND},
        {"send_wq_depth": 1, "qps": 1},
        {"loopback": True, "direction": Direction.BIDIRECTIONAL, "messages": (64, 4096)},
    ],
    ids=str,
)
def test_what_only_looks_hard_is_healthy(change: dict[str, Any]) -> None:
    verdict = TRUTH.verdict(SPACE.base.with_(**change))
    assert verdict.is_normal, verdict.reason


def test_a_window_limited_workload_equals_its_sibling() -> None:
    lonely = Workload(qps=1, send_wq_depth=1, messages=(512,), mtu=1024)
    plain = lonely.with_(mtu=4096)
    rates = [evaluate(F.hardware, workload).delivered_bps()[1] for workload in (lonely, plain)]
    assert rates[0] == pytest.approx(rates[1], rel=0.01)


def _path(trigger: Workload) -> list[Workload]:
    """Eight steps from a plain workload to a trigger, every ordered dimension moving by the same factor at each."""
    plain = SPACE.base
    ordered = ("mrs_per_qp", "qps", "send_wq_depth", "recv_wq_depth")

    def between(low: int, high: int, step: int) -> int:
        factor: float = (high / low) ** (step / 8)
        return max(1, round(low * factor))

    steps = []
    for step in range(9):
        values = {name: between(plain.get(name), trigger.get(name), step) for name in ordered}
        mtu = min((256, 512, 1024, 2048, 4096), key=lambda size: abs(size - between(4096, trigger.mtu, step)))
        message = between(plain.messages[0], trigger.messages[0], step)
        steps.append(plain.with_(**values, mtu=mtu, messages=(message,)))
    assert steps[-1] == trigger.with_(mr_bytes=plain.mr_bytes)
    return steps


def readings(workload: Workload, host: int) -> dict[str, float]:
    return dict(zip(COUNTERS, counters(F.hardware, evaluate(F.hardware, workload))[host], strict=True))


@pytest.mark.parametrize(
    ("mechanism", "counter"), [(M.TRANSLATION_CACHE, "mtt_cache_miss"), (M.CONTEXT_CACHE, "icm_cache_miss")]
)
@pytest.mark.parametrize("only_size", [False, True], ids=["all dimensions", "the sized one"])
def test_miss_counters_rise_before_throughput_falls(mechanism: Mechanism, counter: str, only_size: bool) -> None:
    trigger = TRIGGERS[mechanism]
    path = _path(trigger)
    if only_size:
        sized = "mrs_per_qp" if mechanism is M.TRANSLATION_CACHE else "qps"
        path = [trigger.with_(**{sized: step.get(sized)}) for step in path]
    misses = [readings(workload, 1)[counter] for workload in path]
    delivered = [evaluate(F.hardware, workload).delivered_bps()[1] for workload in path]
    assert misses[:7] == sorted(misses[:7])  # then they are what limits the rate, and stay
    assert misses[4] > 5 * misses[0] > 0
    assert all(rate == pytest.approx(delivered[0], rel=0.05) for rate in delivered[:5])
    assert TRUTH.verdict(path[-1]).is_anomalous


@pytest.mark.parametrize("opcode", [Opcode.WRITE, Opcode.SEND, Opcode.READ])
@pytest.mark.parametrize("qps", [4096, 20_000])
def test_thousands_of_queue_pairs_cost_short_messages_of_every_opcode_about_half(opcode: Opcode, qps: int) -> None:
    few = Workload(opcode=opcode, qps=16, messages=(64,))
    share = max(evaluate(F.hardware, few.with_(qps=qps)).delivered_bps()) / max(
        evaluate(F.hardware, few).delivered_bps()
    )
    assert 0.5 <= share <= 0.7
    bulk = few.with_(messages=(65536,))
    assert TRUTH.verdict(bulk.with_(qps=qps)).is_normal, "bulk traffic hides the misses"


def test_one_short_read_among_long_ones_is_no_way_around_the_slow_path() -> None:
    long = TRIGGERS[M.READ_SLOW_PATH].with_(messages=(4 << 20,) * 5)
    mixed = long.with_(messages=(*long.messages, 64))
    assert TRUTH.verdict(mixed).severity == pytest.approx(TRUTH.verdict(long).severity, rel=0.05)


def test_loopback_is_held_up_by_what_it_uses_and_not_by_the_rate_of_the_port() -> None:
    slower = F.hardware.with_part("wire", line_rate_bps=F.wire.line_rate_bps / 2)
    gpu = TRIGGERS[M.PEER_TO_PEER_REDIRECT].with_(loopback=True)
    for workload in (gpu, gpu.with_(memory=Memory.DRAM)):
        whole, half = (evaluate(hardware, workload).delivered_bps()[1] for hardware in (F.hardware, slower))
        assert half <= whole * 1.1


STEPS_OF_HARDWARE = {
    "F": {
        M.DATAGRAM_PREFETCH: {"qps", "sge_count"},
        M.READ_SCATTER_LISTS: {"sge_count"},
        M.RELIABLE_PREFETCH: {"messages[0]", "qps", "sge_count"},
        M.RELIABLE_RECEIVE_CACHE: {"messages[0]", "sge_count"},
        M.TRANSLATION_CACHE: {"messages[0]", "qps", "send_wq_depth", "wqe_batch"},
        M.CONTEXT_CACHE: {"messages[0]", "wqe_batch"},
        M.STRICT_ORDERING: {"sge_count"},
    },
    "H": {
        M.DATAGRAM_RECEIVE_CACHE: {"wqe_batch"},
        M.RELIABLE_RECEIVE_CACHE: {"messages[0]"},
        M.TRANSMIT_STAGING: {"messages[0]", "sge_count"},
        M.PENDING_READS: {"messages[0]", "wqe_batch"},
        M.DUPLEX_ARBITER: {"messages[0]", "qps"},
    },
}
"""Where a whole packet or a unit of a small integer may decide. A step elsewhere is an edge of the model."""


@pytest.mark.parametrize("name", ["F", "H"])
def test_no_single_unit_decides(name: str) -> None:
    found = list(steps(load_subsystem(name, SubsystemFile), SPACE))
    assert [step for step in found if step.exempt is None] == []
    walked: dict[str, set[str]] = {}
    for step in found:
        walked.setdefault(step.mechanism, set()).add(step.walk)
    assert walked == STEPS_OF_HARDWARE[name]


@pytest.mark.parametrize(("name", "count"), [("F", 12), ("H", 4)])
def test_a_counter_of_its_own_events_leads_to_almost_every_anomaly(name: str, count: int) -> None:
    found = {lead.mechanism: lead for lead in leads(load_subsystem(name, SubsystemFile), SPACE)}
    led = [mechanism for mechanism, lead in found.items() if LEADING.get(mechanism) in lead.grown]
    assert len(led) >= count, sorted(set(found) - set(led))


def test_loopback_raises_pcie_back_pressure_and_not_the_receive_wqe_counter() -> None:
    trigger = TRIGGERS[M.LOOPBACK_INCAST]
    quiet, incast = readings(trigger.with_(loopback=False), 1), readings(trigger, 1)
    assert incast["pcie_internal_back_pressure"] > 2 * quiet["pcie_internal_back_pressure"]
    assert incast["loopback_back_pressure"] > quiet["loopback_back_pressure"]
    assert incast["receive_wqe_cache_miss"] == quiet["receive_wqe_cache_miss"] == 0


def test_memory_is_a_resource_like_others() -> None:
    slow = F.hardware.with_part("memory", bandwidth_bps=100e9)
    state = evaluate(slow, SPACE.base)
    assert state.delivered_bps()[1] == pytest.approx(100e9)
    assert bottleneck(state).startswith("memory")
