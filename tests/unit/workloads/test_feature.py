"""Features, conditions and sets of conditions."""

from __future__ import annotations

from collie.workloads.feature import Condition, Mfs, Op, feature_value
from collie.workloads.workload import (
    Direction,
    QpType,
    Workload,
)


def test_features_derive_totals_and_extremes() -> None:
    workload = Workload(
        qps=8, mrs_per_qp=4, messages=(128, 65536), direction=Direction.BIDIRECTIONAL, recv_wq_depth=16, sge_count=2
    )
    expected = {
        "min_message_bytes": 128, "max_message_bytes": 65536, "total_qps": 16, "total_mrs": 32,
        "total_recv_wqes": 128, "min_segment_bytes": 64, "max_segment_bytes": 32768,
    }  # fmt: skip
    assert {name: feature_value(workload, name) for name in expected} == expected


def test_what_a_nic_holds_is_that_of_all_its_flows() -> None:
    one = Workload(qps=8, mrs_per_qp=4, recv_wq_depth=16, send_wq_depth=2)
    both = one.with_(direction=Direction.BIDIRECTIONAL)
    names = ("nic_qps", "nic_mrs", "nic_recv_wqes", "nic_send_wqes")

    def held(workload: Workload) -> list[int]:
        return [feature_value(workload, name) for name in names]

    assert held(one) == [8, 32, 128, 16]
    assert held(both) == [16, 64, 128, 16]  # one direction arrives, and one leaves
    assert held(both.with_(loopback=True)) == [32, 128, 256, 32]  # both ends of loopback are on one NIC
    assert held(one.with_(requesters=3)) == [24, 96, 384, 48]


def test_what_is_offered_is_that_of_all_flows_of_a_nic_and_in_messages_of_the_mean_size() -> None:
    one = Workload(offered_bps=8_000_000, messages=(100, 900), wqe_batch=16)
    both = one.with_(direction=Direction.BIDIRECTIONAL, loopback=True)
    names = ("nic_offered_bps", "offered_messages_per_second", "post_bytes")

    def offered(workload: Workload) -> list[int]:
        return [feature_value(workload, name) for name in names]

    assert offered(one) == [8_000_000, 2_000, 8_000]
    assert offered(both) == [32_000_000, 2_000, 8_000]
    assert offered(one.with_(offered_bps=0)) == [0, 0, 8_000]


def test_an_mfs_covers_what_satisfies_every_condition() -> None:
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 64), Condition("qp_type", Op.ONE_OF, (QpType.UD, QpType.UC))))
    inside = Workload(wqe_batch=64, qp_type=QpType.UC)
    assert mfs.covers(inside)
    assert not mfs.covers(inside.with_(wqe_batch=32))
    assert not mfs.covers(inside.with_(qp_type=QpType.RC))
    assert str(mfs) == "wqe_batch >= 64 and qp_type in {UD, UC}"


def test_an_empty_mfs_explains_nothing() -> None:
    assert not Mfs(()).covers(Workload())
