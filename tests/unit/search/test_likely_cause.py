"""The hint for the cause, from the moved counters and the conditions together."""

from __future__ import annotations

import pytest

from collie.detect.symptom import Symptom
from collie.search.likely_cause import DiscriminatingCounter, component, hint
from collie.workloads.feature import Condition, Mfs, Op

BIDIRECTIONAL = Condition("direction", Op.EQUAL, "bidirectional")
ON_GPU = Condition("gpu_hosts", Op.AT_LEAST, 1)
FAR = Condition("far_hosts", Op.AT_LEAST, 1)
LOOPBACK = Condition("loopback", Op.EQUAL, True)
SEGMENTS = Condition("sge_count", Op.AT_LEAST, 3)
BATCH = Condition("wqe_batch", Op.AT_LEAST, 64)
NO_BATCH = Condition("wqe_batch", Op.AT_MOST, 8)
QPS = Condition("qps", Op.AT_LEAST, 1024)
DEEP = Condition("recv_wq_depth", Op.AT_LEAST, 1024)

ORDERING = DiscriminatingCounter("ordering", "PCIe", 900.0, "reads that waited under strict ordering")
STALLED = DiscriminatingCounter("stalled", "PCIe", 800.0)
RECEIVES = DiscriminatingCounter("wqe_miss", "receive WQE cache", 700.0)
INCAST = DiscriminatingCounter("held_back", "loopback path", 650.0)
CREDITS = DiscriminatingCounter("credits", "send scheduler", 950.0)
ANSWERS = DiscriminatingCounter("ack_busy", "acknowledgement unit", 40.0)
CONTEXTS = DiscriminatingCounter("icm_miss", "QP context cache", 1500.0)
ODD = DiscriminatingCounter("odd", "flux capacitor", 9.0, "jumps")


LONG = Condition("max_message_bytes", Op.AT_LEAST, 65536)


def cause(moved: list[DiscriminatingCounter], *conditions: Condition) -> str:
    return hint(Symptom.PAUSE, moved, Mfs(conditions)).removesuffix(", so the host asks its peer to stop")


@pytest.mark.parametrize(
    ("moved", "conditions", "words"),
    [
        ([ORDERING, STALLED], (BIDIRECTIONAL, ON_GPU), "GPU memory"),
        ([ORDERING, STALLED], (BIDIRECTIONAL, FAR), "the link between the sockets"),
        ([ORDERING, STALLED], (BIDIRECTIONAL, SEGMENTS), "strict ordering"),
        ([ORDERING, STALLED], (LOOPBACK,), "loopback traffic and traffic from the network compete for PCIe"),
        ([ORDERING, INCAST], (LOOPBACK, FAR), "loopback traffic competes"),
        ([ORDERING, ANSWERS], (BIDIRECTIONAL, BATCH), "answers to short messages"),  # not the most moved counter
        ([ANSWERS, CONTEXTS], (QPS, LONG), "answers to short messages"),  # where everything goes both ways
        ([CONTEXTS, ANSWERS], (QPS, LONG), "queue pair contexts"),
        ([RECEIVES], (BATCH, DEEP), "posted in large batches are not prefetched"),
        ([CONTEXTS, ORDERING], (QPS, ON_GPU), "queue pair contexts"),  # memory that another cause needs
        ([CONTEXTS, ORDERING], (QPS, FAR), "queue pair contexts"),
        ([RECEIVES], (NO_BATCH, DEEP), "many or long queues"),
    ],
)
def test_one_counter_has_unlike_causes_under_unlike_conditions(
    moved: list[DiscriminatingCounter], conditions: tuple[Condition, ...], words: str
) -> None:
    assert words in cause(moved, *conditions)


@pytest.mark.parametrize(
    ("moved", "conditions", "said"),
    [
        ([ORDERING], (), "the way to memory over PCIe is held up"),
        ([ORDERING], (BATCH,), "the way to memory over PCIe is held up"),
        ([ODD], (ON_GPU,), "the flux capacitor runs short (jumps)"),
        ([RECEIVES], (ON_GPU, FAR), "arrivals wait for their receive work requests to be fetched"),
        ([RECEIVES], (NO_BATCH,), "arrivals wait for their receive work requests to be fetched"),
        ([INCAST], (BATCH,), "the loopback path runs short"),  # loopback that the anomaly does not need
        ([INCAST], (Condition("loopback", Op.EQUAL, False),), "the loopback path runs short"),
        ([ORDERING, RECEIVES], (), "several units are busier than with plain traffic (PCIe, receive WQE cache)"),
        ([ORDERING, ANSWERS], (), "the way to memory over PCIe is held up"),  # far less moved
        ([CREDITS, RECEIVES], (), "arrivals wait for their receive work requests to be fetched"),  # no consequence
        ([CREDITS], (), "senders are held back for want of credits or turns"),
    ],
)
def test_without_a_condition_that_fits_the_hint_stays_generic(
    moved: list[DiscriminatingCounter], conditions: tuple[Condition, ...], said: str
) -> None:
    assert cause(moved, *conditions) == said


def test_the_hint_ends_with_the_symptom() -> None:
    assert hint(Symptom.LOW_THROUGHPUT, [ODD], Mfs(())) == "the flux capacitor runs short (jumps), so throughput falls"


@pytest.mark.parametrize(
    ("moved", "conditions", "blamed"),
    [
        ([ORDERING, ANSWERS], (BIDIRECTIONAL, BATCH), "acknowledgement unit"),  # not the most moved counter
        ([ORDERING, INCAST], (LOOPBACK,), "loopback path"),
        ([CREDITS, RECEIVES], (), "receive WQE cache"),  # credits run out wherever the receiver is slow
        ([ORDERING, RECEIVES], (), "PCIe"),
        ([], (BATCH,), ""),
    ],
)
def test_the_component_is_the_one_that_the_hint_blames(
    moved: list[DiscriminatingCounter], conditions: tuple[Condition, ...], blamed: str
) -> None:
    assert component(moved, Mfs(conditions)) == blamed
