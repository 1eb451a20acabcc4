"""The deadline of a drain: what is outstanding at the rate that was measured, and one round of retries."""

from __future__ import annotations

import pytest

from collie.detect.measurement import HostMeasurement, Measurement
from collie.hosts.drain import MOST_SECONDS, drain_seconds
from collie.workloads.workload import Direction, Opcode, QpType, Workload


def measured(bps: float | None) -> Measurement:
    return Measurement((HostMeasurement("b", delivered_bps=bps),), window_seconds=1.0)


def beyond_least(workload: Workload, bps: float | None) -> float:
    return drain_seconds(workload, measured(bps)) - 0.5


def test_it_is_in_proportion_to_the_bytes_outstanding() -> None:
    one = Workload(qps=1, send_wq_depth=16, messages=(1024,), timeout=1, rnr_retry=0)
    seconds = beyond_least(one, 1e6)
    assert seconds == pytest.approx(4 * 16 * 1024 * 8 / 1e6, rel=0.01)
    for more in (one.with_(qps=2), one.with_(send_wq_depth=32), one.with_(direction=Direction.BIDIRECTIONAL)):
        assert beyond_least(more, 1e6) == pytest.approx(2 * seconds, rel=0.01)
    assert beyond_least(one, 2e6) == pytest.approx(seconds / 2, rel=0.01)


def test_retries_count_where_there_are_acknowledgements() -> None:
    workload = Workload(
        opcode=Opcode.SEND, messages=(64,), qps=1, timeout=16, retry_cnt=3, rnr_retry=2, min_rnr_timer=29
    )
    at_once = beyond_least(workload.with_(qp_type=QpType.UC), 1e12)
    assert at_once == pytest.approx(0.0, abs=1e-3)
    assert beyond_least(workload, 1e12) == pytest.approx(3 * 4.096e-6 * 2**16 + 2 * 0.24576, abs=1e-3)


@pytest.mark.parametrize("bps", [None, 0.0, 1.0])
def test_it_is_bounded(bps: float | None) -> None:
    huge = Workload(qps=1000, send_wq_depth=1000, messages=(1 << 20,), timeout=31)
    assert drain_seconds(huge, measured(bps)) == MOST_SECONDS
