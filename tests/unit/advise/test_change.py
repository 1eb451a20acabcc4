"""Changes that free an application of a known anomaly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.advise.box import Box, BoxRule, closest
from collie.advise.check import check
from collie.advise.effort import Effort
from collie.advise.overlap import Known, with_margin
from collie.advise.solver import find
from collie.app.checks import Collection
from collie.content.spaces import load_space
from collie.report.terminal.advice import render_advice
from collie.workloads.application import Application, Sizes, Traffic
from collie.workloads.constraint import HostLimits
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Direction, Memory, Opcode, QpType, Workload
from tests.support.applications import SPACE, known, traffic

MANY = Condition("qps", Op.AT_LEAST, 128)
DEEP = Condition("send_wq_depth", Op.AT_LEAST, 512)


def test_a_limit_moves_no_further_than_it_has_to() -> None:
    application = Application("app", "", SPACE, (traffic(qps=range(1, 321), send_wq_depth=range(1, 1025)),))

    (hit,) = check(application, [known("a", MANY, DEEP)]).hits

    assert [(change.dimension, change.after, change.steps) for change in hit.changes] == [
        ("send_wq_depth", range(1, 257), 2),
        ("qps", range(1, 81), 4),
    ]
    assert dict(hit.overlap.reach) == {"qps": (128, 320), "send_wq_depth": (512, 1024)}


def test_the_example_after_a_change_is_that_of_the_cheapest() -> None:
    application = Application("app", "", SPACE, (traffic(qps=range(1, 321), send_wq_depth=range(1, 1025)),))

    (hit,) = check(application, [known("a", MANY, DEEP)]).hits

    assert hit.changed is not None
    assert (hit.changed.qps >= 128, hit.changed.send_wq_depth) == (True, 256)
    ladder = [step for step in SPACE.ladder("send_wq_depth") if step <= 1024]
    assert hit.changes[0].share_lost == pytest.approx(2 / len(ladder))


@pytest.mark.parametrize(
    ("condition", "after"),
    [
        (Condition("max_message_bytes", Op.AT_LEAST, 8192), (4096, 128)),
        (Condition("min_message_bytes", Op.AT_MOST, 128), (65536, 256)),
    ],
)
def test_sizes_that_are_sent_exactly_are_cut_or_raised(condition: Condition, after: tuple[int, ...]) -> None:
    kind = traffic(messages=Sizes.exactly((65536, 128)))

    (hit,) = check(Application("app", "", SPACE, (kind,)), [known("sizes", condition)]).hits

    assert [(change.dimension, change.after) for change in hit.changes] == [("messages", Sizes.exactly(after))]


def test_a_mix_of_sizes_can_be_given_up() -> None:
    mixed = known(
        "mixed", Condition("max_message_bytes", Op.AT_LEAST, 4096), Condition("min_message_bytes", Op.AT_MOST, 2048)
    )
    several = Application("app", "", SPACE, (traffic(messages=Sizes(range(128, 65537), 3)),))

    (hit,) = check(several, [mixed]).hits

    assert [(change.after, change.steps, change.share_lost) for change in hit.changes] == [
        (Sizes(range(128, 65537)), 4, 0.0)
    ]


@pytest.mark.parametrize(("wanted", "nearest"), [(0, 1), (8, 8), (10, 8), (60, 64), (100, 64)])
def test_the_nearest_value_is_taken(wanted: int, nearest: int) -> None:
    assert closest((1, 8, 64), wanted, ordered=True) == nearest


def test_what_an_application_keeps_is_not_changed() -> None:
    kind = traffic(qps=range(1, 321), send_wq_depth=range(1, 1025))

    kept = check(Application("app", "", SPACE, (kind,), frozenset({"send_wq_depth"})), [known("a", MANY, DEEP)])
    stuck = check(Application("app", "", SPACE, (kind,), frozenset({"send_wq_depth", "qps"})), [known("a", MANY, DEEP)])

    assert [change.dimension for change in kept.hits[0].changes] == ["qps"]
    assert (stuck.hits[0].changes, stuck.hits[0].pair, stuck.hits[0].changed, stuck.remedy) == ((), None, None, None)
    assert "No changes were found after which it hits none" in render_advice(
        stuck, Collection((known("a", MANY, DEEP),)), {}
    )


def test_two_changes_are_advised_where_one_would_enter_another_anomaly() -> None:
    """READ is bad, SEND and WRITE are bad in chains of one: only another opcode and longer chains together help."""
    application = Application(
        "app", "", SPACE, (traffic(opcode=(Opcode.READ,), wqe_batch=(1,)),), frozenset({"qp_type"})
    )
    read = known("read", Condition("opcode", Op.EQUAL, Opcode.READ))
    single = known(
        "single",
        Condition("opcode", Op.ONE_OF, (Opcode.SEND, Opcode.WRITE)),
        Condition("wqe_batch", Op.AT_MOST, 1),
    )

    advised = check(application, [read, single])
    (hit,) = advised.hits

    assert hit.changes == ()
    text = render_advice(advised, Collection((read, single)), {})
    assert "  change   no single change leaves it without entering another\n" in text
    assert "  both     opcode WRITE (now READ) and wqe_batch 2 instead of 1" in text
    assert hit.pair is not None
    assert [(change.dimension, change.after) for change in hit.pair] == [
        ("opcode", (Opcode.WRITE,)),
        ("wqe_batch", (2,)),
    ]
    assert hit.changed is not None
    assert (hit.changed.opcode, hit.changed.wqe_batch) == (Opcode.WRITE, 2)


def test_of_two_pairs_of_changes_the_cheaper_is_advised() -> None:
    """Another opcode enters one anomaly, fewer queue pairs another. Fewer, with a larger MTU, are two steps."""
    kind = traffic(opcode=(Opcode.READ,), wqe_batch=(1,), qps=(128,), mtu=(1024,))
    read = known("read", Condition("opcode", Op.EQUAL, Opcode.READ), Condition("qps", Op.AT_LEAST, 128))
    single = known(
        "single", Condition("opcode", Op.ONE_OF, (Opcode.SEND, Opcode.WRITE)), Condition("wqe_batch", Op.AT_MOST, 1)
    )
    few = known("few", Condition("qps", Op.AT_MOST, 127), Condition("mtu", Op.AT_MOST, 1024))

    (hit,) = check(Application("app", "", SPACE, (kind,), frozenset({"qp_type"})), [read, single, few]).hits

    assert hit.pair is not None
    assert [(change.dimension, change.steps) for change in hit.pair] == [("qps", 1), ("mtu", 1)]


def test_a_change_leaves_everything_else_possible() -> None:
    """Another transport would lose the long messages, a shorter queue the long chains."""
    kind = traffic(qp_type=(QpType.RC,), opcode=(Opcode.SEND,), wqe_batch=range(1, 65), recv_wq_depth=range(64, 1025))
    bad = known(
        "bad",
        Condition("qp_type", Op.ONE_OF, (QpType.RC, QpType.UC)),
        Condition("recv_wq_depth", Op.AT_LEAST, 64),
    )

    (hit,) = check(Application("app", "", SPACE, (kind,)), [bad]).hits

    assert hit.changes == ()


def test_published_thresholds_are_given_a_margin_of_one_step() -> None:
    coarse = known(
        "coarse",
        Condition("qps", Op.AT_LEAST, 500),
        Condition("mtu", Op.AT_MOST, 1024),
        Condition("total_qps", Op.AT_LEAST, 160),
        Condition("max_message_bytes", Op.AT_MOST, 1024),
        Condition("opcode", Op.EQUAL, Opcode.READ),
        Condition("far_hosts", Op.AT_LEAST, 1),
        is_coarse=True,
    )

    wider = with_margin(coarse, SPACE).mfs.conditions

    assert [condition.value for condition in wider] == [480, 2048, 80, 2048, Opcode.READ, 1]
    exact = known("exact", MANY)
    assert with_margin(exact, SPACE) is exact


@pytest.mark.parametrize(
    ("queue_pairs", "changed"),
    [(320, ["send_wq_depth"]), (240, ["send_wq_depth"]), (480, ["send_wq_depth", "qps"])],
    ids=["would come within the margin", "is within the margin", "stays beyond the margin"],
)
def test_a_change_keeps_the_margin_of_other_anomalies_unless_the_traffic_is_within_it(
    queue_pairs: int, changed: list[str]
) -> None:
    """Published: up to 160 queue pairs, so 240 may show it as well."""
    deep = known("deep", Condition("qps", Op.AT_LEAST, min(queue_pairs, 400)), DEEP)
    few = known("few", Condition("qps", Op.AT_MOST, 160), is_coarse=True)
    kind = traffic(qps=(queue_pairs,), send_wq_depth=range(1, 1025))

    (hit,) = check(Application("app", "", SPACE, (kind,)), [deep, few]).hits

    assert sorted(change.dimension for change in hit.changes) == sorted(changed)


@pytest.mark.parametrize(
    ("op", "value", "wider"),
    [
        (Op.AT_LEAST, 4, 2),
        (Op.AT_LEAST, 2, 2),
        (Op.AT_LEAST, 1, 1),
        (Op.AT_MOST, 12288, 16384),
        (Op.AT_MOST, 16384, 16384),
        (Op.AT_MOST, 20000, 20000),
    ],
)
def test_a_margin_leaves_values_beyond_it(op: Op, value: int, wider: int) -> None:
    """The ladder of queue pairs begins with 1 and 2, and ends with 12288, 16384 and 20000."""
    coarse = known("coarse", Condition("qps", op, value), is_coarse=True)
    assert with_margin(coarse, SPACE).mfs == Mfs((Condition("qps", op, wider),))


def test_the_thresholds_of_a_campaign_are_exact() -> None:
    """They were extracted, which is what is assumed of an anomaly."""
    found = Known("campaigns/one/a1", "It is slow.", Mfs((MANY,)), Workload())
    kind = traffic(qps=(127,))

    assert with_margin(found, SPACE) is found
    (hit,) = check(Application("app", "", SPACE, (traffic(qps=(128,)),)), [found]).hits
    assert hit.changes[0].has_margin
    assert not check(Application("app", "", SPACE, (kind,)), [found]).hits


def test_an_anomaly_on_what_the_space_does_not_vary_has_no_steps() -> None:
    inline = known("inline", Condition("max_inline_data", Op.AT_LEAST, 64), is_coarse=True)

    assert with_margin(inline, SPACE).mfs == inline.mfs
    assert check(Application.of("one", Workload(max_inline_data=128), SPACE), [inline]).hits[0].changes == ()
    assert not check(Application.of("one", Workload(max_inline_data=32), SPACE), [inline]).hits


def test_an_empty_explanation_covers_nothing() -> None:
    assert find(traffic(), SPACE, Mfs(()), Workload()) is None


def test_a_mean_over_several_messages_is_decided_exactly() -> None:
    """7 queues of 5 messages may hold 3500 bytes: 100 on average, so 172 beside twice 64 and no more."""
    limited = replace(SPACE, limits=HostLimits(outstanding_bytes=3500))
    kind = traffic(qps=(7,), send_wq_depth=(5,), messages=Sizes(range(64, 1025), 3))

    def with_one_of(size: int) -> Workload | None:
        return find(kind, limited, known("long", Condition("max_message_bytes", Op.AT_LEAST, size)).mfs, long)

    long = Workload(messages=(1024, 1024, 1024))
    best = with_one_of(172)
    assert best is not None
    assert sorted(best.messages) == [64, 64, 172]
    assert with_one_of(173) is None
    fitting = find(kind, limited, None, long)
    assert fitting is not None
    assert sum(fitting.messages) <= 100 * len(fitting.messages)


@pytest.mark.parametrize(
    ("conditions", "witness"),
    [
        (
            (("max_message_bytes", Op.AT_LEAST, 1 << 22), ("mean_message_bytes", Op.AT_MOST, 1 << 20)),
            (1 << 22, *[64] * 5),
        ),
        ((("min_message_bytes", Op.AT_MOST, 64), ("mean_message_bytes", Op.AT_LEAST, 3 << 20)), (*[1 << 22] * 5, 64)),
        ((("max_message_bytes", Op.AT_LEAST, 65536), ("post_bytes", Op.AT_MOST, 20000)), (65536, *[64] * 5)),
    ],
)
def test_a_condition_on_the_mean_can_need_many_messages(
    conditions: tuple[tuple[str, Op, int], ...], witness: tuple[int, ...]
) -> None:
    sizes = SPACE.ladder("messages")
    kind = traffic(mr_bytes=(1 << 22,), messages=Sizes(sizes, 6))
    mfs = Mfs(tuple(Condition(*each) for each in conditions))
    assert mfs.covers(SPACE.base.with_(mr_bytes=1 << 22, messages=witness))
    found = find(kind, SPACE, mfs, SPACE.base)
    assert found is not None
    assert mfs.covers(found)


def test_values_without_order_that_do_not_go_together_are_tried_one_by_one() -> None:
    kind = traffic(qp_type=(QpType.RC, QpType.UD), opcode=(Opcode.READ, Opcode.SEND), messages=Sizes((64, 65536)))

    found = find(kind, SPACE, None, Workload(qp_type=QpType.UD, opcode=Opcode.READ, messages=(65536,)))

    assert found is not None
    assert SPACE.allows(found)
    assert (found.qp_type, found.opcode) in {(QpType.RC, Opcode.READ), (QpType.UD, Opcode.SEND)}


def test_a_product_that_no_values_have_is_not_found() -> None:
    """3 or 4 queue pairs, once, twice or four times: 6 and 8 in all, and never 7, which no single value rules out."""
    space = load_space("soft-roce")
    kind = Traffic.of("some", space.base, space).with_values("direction", tuple(Direction))
    kind = kind.with_values("qps", (3, 4)).with_values("requesters", (1, 2))

    def with_in_all(*counts: int) -> Workload | None:
        return find(kind, space, Mfs((Condition("total_qps", Op.ONE_OF, counts),)), space.base)

    assert with_in_all(7) is None
    assert with_in_all(7, 16) is not None


@pytest.mark.parametrize(("regions", "exists"), [(43 * 47, True), (2003, False), (2 * 1009, False)])
def test_a_product_of_two_ranges_is_decided_by_halving(regions: int, exists: bool) -> None:
    kind = traffic(qps=range(2, 50), mrs_per_qp=range(2, 50))

    found = find(kind, SPACE, Mfs((Condition("total_mrs", Op.EQUAL, regions),)), Workload())

    assert (found is not None and found.qps * found.mrs_per_qp == regions) is exists
    assert (found is None) is not exists


def test_each_value_without_an_order_that_is_given_up_costs_as_much() -> None:
    kind = traffic(opcode=(Opcode.WRITE, Opcode.SEND, Opcode.READ))

    for harmful, lost in (((Opcode.READ,), 1), ((Opcode.SEND, Opcode.READ), 2)):
        condition = Condition("opcode", Op.ONE_OF, harmful)
        (hit,) = check(Application("app", "", SPACE, (kind,)), [known("some", condition)]).hits
        (change,) = hit.changes
        assert change.after == tuple(each for each in kind.values["opcode"] if each not in harmful)
        assert change.steps == 4 * lost
        assert change.share_lost == pytest.approx(lost / 3)


def test_the_margin_of_a_product_is_at_most_a_factor_of_two() -> None:
    for value, wider in ((1, 1), (3, 2), (160, 80)):
        coarse = known("coarse", Condition("total_qps", Op.AT_LEAST, value), is_coarse=True)
        assert with_margin(coarse, SPACE).mfs.conditions[0].value == wider


def test_conditions_that_exclude_each_other_are_hit_by_nothing() -> None:
    one, both = Condition("gpu_hosts", Op.EQUAL, 1), Condition("gpu_hosts", Op.EQUAL, 2)
    kind = traffic(memory=tuple(Memory), peer_memory=tuple(Memory))

    assert find(kind, SPACE, Mfs((one,)), Workload()) is not None
    assert find(kind, SPACE, Mfs((one, both)), Workload(), Effort(1000)) is None


def test_no_workload_has_two_values_of_a_dimension_without_an_order() -> None:
    each = [Condition("direction", Op.EQUAL, direction) for direction in Direction]
    kind = traffic(direction=tuple(Direction))

    assert all(find(kind, SPACE, Mfs((one,)), Workload()) is not None for one in each)
    assert find(kind, SPACE, Mfs(tuple(each)), Workload()) is None


def test_values_that_break_a_rule_are_removed_from_every_field_that_it_reads() -> None:
    rule = BoxRule(frozenset({"qps", "messages"}), lambda w: w.qps >= 8 and max(w.messages) <= 1024, frozenset({"qps"}))
    sizes = (64, 1024, 65536)
    box = Box(Workload(), {"qps": range(1, 17), "mtu": (1024, 4096)}, (sizes, sizes), frozenset({"qps", "mtu"}))

    tightened = box.tightened(rule)

    assert tightened.values == {"qps": range(8, 17), "mtu": (1024, 4096)}
    assert tightened.sizes == ((64, 1024), (64, 1024))
    of_qps = BoxRule(frozenset({"qps"}), lambda w: w.qps >= 8, frozenset({"qps"}))
    assert box.tightened(of_qps).sizes == box.sizes
