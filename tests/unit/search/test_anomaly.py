"""Identifiers and sentences of anomalies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.search.anomaly import Anomaly, anomaly_id, require_id
from collie.search.phrases import differences
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import Opcode, QpType, Workload


@pytest.mark.parametrize("name", ["fw=22.36-a1", "prod baseline-a1", "_a", "x" * 70, "a/b/c", "\u00e9"])
def test_every_name_of_a_case_makes_an_id(name: str) -> None:
    assert require_id(anomaly_id(name))
    assert anomaly_id(name) != anomaly_id(name + "2")
    assert anomaly_id("prod-a1.without-qps-min") == "prod-a1.without-qps-min"


def test_what_an_anomaly_needs_before_it_is_named() -> None:
    alone = finding(Condition("loopback", Op.EQUAL, True), complete=True)
    larger = alone.workload.with_(qps=8, mr_bytes=1 << 20)
    needs = "Any traffic (seen with UC WRITE) when loopback traffic runs beside it"
    assert alone.set_up is None
    assert replace(alone, made_for=larger).sentence == (
        f"{needs}, only on a set-up for traffic with mr_bytes 1 MiB and qps 8: host b sends pause."
    )
    before = (larger.with_(opcode=Opcode.SEND), alone.workload)
    after = replace(alone, made_for=larger, history=before)
    assert after.set_up == SetUp(larger, before)
    assert after.sentence == (
        f"{needs}, only after a phase with mr_bytes 1 MiB, opcode SEND and qps 8 and then a phase with the same "
        "traffic on the same set-up: host b sends pause."
    )
    unexplained = replace(after, mfs=Mfs(()), complete=False)
    assert unexplained.sentence.startswith("UC WRITE, not explained yet, only after a phase with")


@pytest.mark.parametrize(
    ("conditions", "complete", "rest"),
    [
        (
            [Condition("qps", Op.AT_LEAST, 4)],
            True,
            ". Any traffic (seen with UC WRITE) when there are at least 4 queue",
        ),
        ([], True, ". Any workload of the space: host b sends pause."),
        ([], False, ", not explained yet: host b sends pause."),
    ],
)
def test_the_sentence_begins_with_plain_traffic_that_is_itself_anomalous(
    conditions: list[Condition], complete: bool, rest: str
) -> None:
    found = replace(finding(*conditions, complete=complete), workload=Workload(qp_type=QpType.UC, qps=4), is_plain=True)
    plain = "Plain traffic (UC WRITE, qps 4, messages [64 KiB]) itself is anomalous"
    assert found.sentence.startswith(plain + rest)
    assert "Plain" not in replace(found, is_plain=False).sentence
    loaded = replace(found, workload=found.workload.with_(offered_bps=10**9))
    assert "messages [64 KiB], offered_bps 1 Gbit/s) itself" in loaded.sentence


def finding(*conditions: Condition, complete: bool) -> Anomaly:
    workload = Workload(qp_type=QpType.UC, loopback=True)
    mfs = Mfs(conditions)
    return Anomaly("a1", Symptom.PAUSE, 0.2, workload, workload, mfs, "host b sends pause", "b", 1, 1.0, 1, complete)


@pytest.mark.parametrize(
    ("conditions", "complete", "sentence"),
    [
        ([], False, "UC WRITE, not explained yet: host b sends pause."),
        ([], True, "Any workload of the space: host b sends pause."),
        (
            [
                Condition("qp_type", Op.EQUAL, "UC"),
                Condition("more_opcodes", Op.ONE_OF, ((), (Opcode.SEND, Opcode.SEND_WITH_IMM))),
                Condition("huge_pages", Op.EQUAL, True),
            ],
            True,
            "UC when nothing or SEND and SEND_WITH_IMM is mixed in and buffers are on huge pages: host b sends pause.",
        ),
        (
            [Condition("loopback", Op.EQUAL, True)],
            False,
            "UC WRITE when loopback traffic runs beside it: host b sends pause (not explained to the end).",
        ),
        (
            [Condition("qp_type", Op.ONE_OF, ("RC", "UC"))],
            False,
            "RC/UC (seen with WRITE): host b sends pause (not explained to the end).",
        ),
        (
            [Condition("loopback", Op.EQUAL, True)],
            True,
            "Any traffic (seen with UC WRITE) when loopback traffic runs beside it: host b sends pause.",
        ),
        (
            [Condition("opcode", Op.EQUAL, "WRITE"), Condition("wqe_batch", Op.AT_MOST, 1)],
            True,
            "WRITE when work requests are posted one by one: host b sends pause.",
        ),
        (
            [Condition("opcode", Op.EQUAL, "WRITE"), Condition("sge_count", Op.AT_LEAST, 2)],
            True,
            "WRITE when there are at least 2 scatter/gather entries: host b sends pause.",
        ),
        (
            [Condition("opcode", Op.EQUAL, "WRITE"), Condition("offered_bps", Op.AT_LEAST, 50_000_000_000)],
            True,
            "WRITE when each flow is offered at least 50 Gbit/s: host b sends pause.",
        ),
        (
            [Condition("opcode", Op.EQUAL, "WRITE"), Condition("offered_bps", Op.AT_MOST, 50_000_000_000)],
            True,
            "WRITE when each flow is offered at most 50 Gbit/s or has full send queues: host b sends pause.",
        ),
        (
            [Condition("opcode", Op.EQUAL, "WRITE"), Condition("offered_bps", Op.AT_MOST, 0)],
            True,
            "WRITE when send queues are always full: host b sends pause.",
        ),
    ],
)
def test_a_sentence_claims_no_more_than_was_explained(
    conditions: list[Condition], complete: bool, sentence: str
) -> None:
    assert finding(*conditions, complete=complete).sentence == sentence


def test_an_anomaly_has_the_figures_of_its_simplest_workload_and_keeps_those_that_were_found() -> None:
    found = finding(complete=False)
    found = replace(found, found_as=found.workload)
    simpler, simplest = found.workload.with_(qps=5), found.workload.with_(qps=3)
    mild = Verdict(Outcome.ANOMALOUS, "host a sends pause for 9.0% of the time", Symptom.PAUSE, 0.09, "a")
    once = found.reduced_to(simpler, mild)
    assert (once.severity, once.reason, once.host) == (0.09, mild.reason, "a")
    assert (once.found_severity, once.found_reason) == (found.severity, found.reason)
    twice = once.reduced_to(simplest, replace(mild, severity=0.08))
    assert (twice.severity, twice.found_severity) == (0.08, found.severity), "what was found is not overwritten"
    back = twice.reduced_to(found.found_as, replace(mild, severity=0.5))
    assert (back.severity, back.found_severity, back.found_figure) == (0.5, None, "")
    assert found.reduced_to(simpler, None) == replace(found, workload=simpler)


def test_an_anomaly_whose_explanation_was_contradicted_claims_none_of_it() -> None:
    unexplained = finding(complete=False)
    mfs = Mfs((Condition("loopback", Op.EQUAL, True),))
    explained = replace(
        unexplained, mfs=mfs, complete=True, trials=9, passed=8, confidence=0.8, fresh_runs=9, fresh_shows=8
    )
    assert explained.without_explanation() == replace(unexplained, revised=(mfs,))


def limits(feature: str, low: int, high: int) -> list[Condition]:
    return [Condition(feature, Op.AT_LEAST, low), Condition(feature, Op.AT_MOST, high)]


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        (limits("max_message_bytes", 512, 8192), "the largest message has 512 B to 8 KiB"),
        (limits("max_message_bytes", 1024, 1024), "the largest message has exactly 1 KiB"),
        (limits("max_inline_data", 64, 2048), "max_inline_data is 64 B to 2 KiB"),
        (limits("mtu", 512, 1024), "the path MTU is 512 to 1024"),
        (limits("mtu", 1024, 1024), "the path MTU is exactly 1024"),
        (limits("qps", 1, 64), "there are 1 to 64 queue pairs per direction"),
        (limits("qps", 1, 1), "there is exactly 1 queue pair per direction"),
        (limits("qps", 4, 4), "there are exactly 4 queue pairs per direction"),
        (limits("offered_bps", 10**9, 10**10), "each flow is offered 1 Gbit/s to 10 Gbit/s"),
        (limits("nic_offered_bps", 10**9, 10**10), "one NIC is offered 1 Gbit/s to 10 Gbit/s"),
        (
            limits("offered_messages_per_second", 1000, 20000),
            "each flow is offered 1,000 messages/s to 20,000 messages/s",
        ),
        (limits("post_bytes", 512, 65536), "one post has 512 B to 64 KiB"),
        (limits("gpu_hosts", 1, 1), "the buffers of exactly one host are GPU memory"),
        (limits("far_hosts", 1, 1), "the buffers of exactly one host are on another socket than its NIC"),
        (limits("timeout", 3, 9), "timeout is 3 to 9"),
        (
            [limits("qps", 4, 9)[1], Condition("mtu", Op.AT_MOST, 1024), limits("qps", 4, 9)[0]],
            "the path MTU is at most 1024 and there are 4 to 9 queue pairs per direction",
        ),
        (
            [Condition("min_message_bytes", Op.AT_LEAST, 512), Condition("max_message_bytes", Op.AT_MOST, 8192)],
            "the smallest message has at least 512 B and the largest message has at most 8 KiB",
        ),
    ],
)
def test_both_limits_of_a_feature_are_one_range(conditions: list[Condition], words: str) -> None:
    anomaly = finding(Condition("opcode", Op.EQUAL, "WRITE"), *conditions, complete=True)
    assert anomaly.sentence == f"WRITE when {words}: host b sends pause."


def test_what_differs_has_its_unit() -> None:
    changed = Workload(messages=(64, 1 << 22), sge_split=(128,), offered_bps=40_000_000_000)
    said = "sge_split [128 B], messages [64 B, 4 MiB] and offered_bps 40 Gbit/s"
    assert differences(changed, Workload()) == said
