"""Subsystem F shows the paper's anomalies at their triggers, and none of them with one condition broken."""

from __future__ import annotations

from typing import Any

import pytest

from collie.content.locate import Kind, find
from collie.content.model import load_model
from collie.content.spaces import load_space
from collie.detect.symptom import Symptom
from collie.simulator.costs import MEMORY
from collie.simulator.demand import KINDS
from collie.simulator.mechanism import Mechanism
from collie.simulator.model import evaluate
from collie.simulator.readings import COUNTERS, counters
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth
from collie.workloads.workload import EVEN, Direction, Memory, Opcode, QpType, Workload

F = load_model(find(Kind.SUBSYSTEM, "F"), SubsystemFile)
SPACE = load_space("nsdi22")
TRUTH = Truth(F, SPACE)
TRIGGERS = {witness.mechanism: witness.trigger for witness in F.witnesses}

M = Mechanism
BROKEN: list[tuple[Mechanism, dict[str, Any]]] = [
    # Table 2, one condition at a time: an ordered one by a factor of two from its threshold, another by another value.
    (M.RECEIVE_WQE_PREFETCH, {"qp_type": QpType.RC}),
    (M.RECEIVE_WQE_PREFETCH, {"qp_type": QpType.UC}),
    (M.RECEIVE_WQE_PREFETCH, {"wqe_batch": 32}),
    (M.RECEIVE_WQE_PREFETCH, {"wqe_batch": 1}),
    (M.RECEIVE_WQE_PREFETCH, {"recv_wq_depth": 128}),
    (M.READ_SLOW_PATH, {"opcode": Opcode.WRITE}),
    (M.READ_SLOW_PATH, {"opcode": Opcode.SEND}),
    (M.READ_SLOW_PATH, {"opcode": Opcode.WRITE, "qp_type": QpType.UC}),
    (M.READ_SLOW_PATH, {"mtu": 2048}),
    (M.READ_SLOW_PATH, {"mtu": 4096}),
    (M.READ_SLOW_PATH, {"messages": (8192,)}),
    (M.TRANSLATION_CACHE, {"qp_type": QpType.UC}),
    (M.TRANSLATION_CACHE, {"opcode": Opcode.SEND}),
    (M.TRANSLATION_CACHE, {"opcode": Opcode.READ}),
    (M.TRANSLATION_CACHE, {"wqe_batch": 2}),
    (M.TRANSLATION_CACHE, {"messages": (2048,)}),
    (M.TRANSLATION_CACHE, {"mrs_per_qp": 250}),  # 6,000 regions
    (M.CONTEXT_CACHE, {"qp_type": QpType.UC}),
    (M.CONTEXT_CACHE, {"opcode": Opcode.SEND}),
    (M.CONTEXT_CACHE, {"opcode": Opcode.READ}),
    (M.CONTEXT_CACHE, {"wqe_batch": 2}),
    (M.CONTEXT_CACHE, {"send_wq_depth": 32}),
    (M.CONTEXT_CACHE, {"messages": (2048,)}),
    (M.CONTEXT_CACHE, {"qps": 240}),
    (M.STRICT_ORDERING, {"direction": Direction.UNIDIRECTIONAL}),
    (M.STRICT_ORDERING, {"sge_count": 1, "sge_split": EVEN}),
    (M.STRICT_ORDERING, {"sge_count": 2}),
    (M.STRICT_ORDERING, {"sge_split": EVEN}),
    (M.STRICT_ORDERING, {"sge_split": (2048, 65536), "messages": (2048 + 65536 + 2048,)}),
    (M.STRICT_ORDERING, {"sge_split": (128, 32768), "messages": (128 + 32768 + 1024,)}),
    (M.LOOPBACK_INCAST, {"loopback": False}),
    (M.LOOPBACK_INCAST, {"messages": (32768,)}),
    (M.LOOPBACK_INCAST, {"messages": (262144, 32768)}),
    (M.LOOPBACK_INCAST, {"messages": (65536,), "qps": 1, "wqe_batch": 1, "send_wq_depth": 1}),
]


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_every_mechanism_has_a_trigger_and_is_what_costs_it_most(mechanism: Mechanism) -> None:
    verdict = TRUTH.verdict(TRIGGERS[mechanism])
    assert verdict.is_anomalous
    assert TRUTH.mechanism(TRIGGERS[mechanism]) is mechanism


@pytest.mark.parametrize(("mechanism", "change"), BROKEN, ids=lambda value: str(value))
def test_a_broken_condition_makes_it_healthy(mechanism: Mechanism, change: dict[str, Any]) -> None:
    workload = TRIGGERS[mechanism].with_(**change)
    assert SPACE.violations(workload) == []
    assert TRUTH.verdict(workload).is_normal, TRUTH.verdict(workload).reason


def test_one_ud_queue_pair_shows_the_papers_pause() -> None:
    state = evaluate(F, TRIGGERS[M.RECEIVE_WQE_PREFETCH])
    assert state.pause_ratio(1) == pytest.approx(0.20, abs=0.02)
    assert state.pause_ratio(0) == 0


def test_reads_at_a_small_mtu_lose_half_and_pause_a_tenth() -> None:
    state = evaluate(F, TRIGGERS[M.READ_SLOW_PATH])
    assert state.pause_ratio(0) == pytest.approx(0.10, abs=0.01)
    assert state.delivered_bps(0) < 100e9


@pytest.mark.parametrize("mechanism", [M.TRANSLATION_CACHE, M.CONTEXT_CACHE])
def test_cache_misses_of_the_responder_cost_throughput_and_no_pause(mechanism: Mechanism) -> None:
    verdict = TRUTH.verdict(TRIGGERS[mechanism])
    assert verdict.symptom is Symptom.LOW_THROUGHPUT
    assert verdict.severity > 0.25
    assert evaluate(F, TRIGGERS[mechanism]).pause_ratio(1) == 0


def test_strict_ordering_leaves_sixty_gigabits_and_a_quarter_of_pause() -> None:
    state = evaluate(F, TRIGGERS[M.STRICT_ORDERING])
    for host in (0, 1):
        assert state.delivered_bps(host) == pytest.approx(60e9, rel=0.02)
        assert state.pause_ratio(host) == pytest.approx(0.25, abs=0.01)


def test_loopback_makes_its_own_host_pause_the_network() -> None:
    state = evaluate(F, TRIGGERS[M.LOOPBACK_INCAST])
    assert state.pause_ratio(1) > 0.1
    assert state.pause_ratio(0) == 0
    assert TRUTH.verdict(TRIGGERS[M.LOOPBACK_INCAST]).symptom is Symptom.PAUSE


@pytest.mark.parametrize(
    "change",
    [
        {"numa_node": 1, "peer_numa_node": 1},
        {"memory": Memory.GPU, "peer_memory": Memory.GPU, "numa_node": 1, "peer_numa_node": 1},
        {"mtu": 256, "qps": 64},
        {"sge_count": 16, "messages": (1024,), "direction": Direction.BIDIRECTIONAL, "opcode": Opcode.SEND, "qps": 64},
        {"messages": (64, 1 << 20, 64, 4096), "qps": 2048},
        {"opcode": Opcode.READ, "qps": 1, "send_wq_depth": 1, "messages": (64,)},
        {"qp_type": QpType.UD, "opcode": Opcode.SEND, "qps": 20_000, "messages": (64,)},
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
    assert evaluate(F, lonely).delivered_bps(1) == pytest.approx(evaluate(F, plain).delivered_bps(1), rel=0.01)


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
    states = [evaluate(F, workload) for workload in path]
    misses = [
        counters(F, workload, state, 1)[COUNTERS.index(counter)] for workload, state in zip(path, states, strict=True)
    ]
    delivered = [state.delivered_bps(1) for state in states]
    assert misses[:7] == sorted(misses[:7])  # then they are what limits the rate, and stay
    assert misses[4] > 5 * misses[0] > 0
    assert all(rate == pytest.approx(delivered[0], rel=0.05) for rate in delivered[:5])
    assert TRUTH.verdict(path[-1]).is_anomalous


def test_loopback_raises_pcie_back_pressure_and_not_the_receive_wqe_counter() -> None:
    trigger = TRIGGERS[M.LOOPBACK_INCAST]

    def reads(workload: Workload) -> dict[str, float]:
        return dict(zip(COUNTERS, counters(F, workload, evaluate(F, workload), 1), strict=True))

    quiet, incast = reads(trigger.with_(loopback=False)), reads(trigger)
    assert incast["pcie_internal_back_pressure"] > 2 * quiet["pcie_internal_back_pressure"]
    assert incast["loopback_back_pressure"] > quiet["loopback_back_pressure"]
    assert incast["receive_wqe_cache_miss"] == quiet["receive_wqe_cache_miss"] == 0


@pytest.mark.parametrize(
    ("part", "field", "mechanism", "dimension"),
    [
        ("context_cache", "entries", M.CONTEXT_CACHE, "qps"),
        ("translation_cache", "entries", M.TRANSLATION_CACHE, "mrs_per_qp"),
        ("receive_wqe_cache", "resident_wqes_per_queue", M.RECEIVE_WQE_PREFETCH, "recv_wq_depth"),
        ("receive_wqe_cache", "prefetch_wqes", M.RECEIVE_WQE_PREFETCH, "wqe_batch"),
    ],
)
def test_the_threshold_moves_with_the_capacity(part: str, field: str, mechanism: Mechanism, dimension: str) -> None:
    def threshold(factor: float) -> int:
        changed = F.with_part(part, **{field: round(getattr(getattr(F, part), field) * factor)})
        truth, trigger = Truth(changed, SPACE), TRIGGERS[mechanism]
        if dimension != "recv_wq_depth":
            trigger = trigger.with_(recv_wq_depth=4096)
        low, high = 1, 4096
        while high - low > 1:
            middle = (low + high) // 2
            depth = max(trigger.send_wq_depth, middle) if dimension == "wqe_batch" else trigger.send_wq_depth
            changed_workload = trigger.with_(**{dimension: middle, "send_wq_depth": depth})
            low, high = (low, middle) if truth.verdict(changed_workload).is_anomalous else (middle, high)
        return high

    half, normal, double = threshold(0.5), threshold(1.0), threshold(2.0)
    assert 1.5 <= normal / half <= 2.5
    assert 1.5 <= double / normal <= 2.5


def test_memory_is_a_resource_like_others() -> None:
    slow = F.with_part("memory", bandwidth_bps=100e9)
    state = evaluate(slow, SPACE.base)
    assert state.delivered_bps(1) == pytest.approx(100e9)
    assert state.bottleneck.startswith("memory")
    assert state.steady[MEMORY] == pytest.approx(state.steady[KINDS + MEMORY])
