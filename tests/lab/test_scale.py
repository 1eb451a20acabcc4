"""Many queue pairs and regions: set up, measured, torn down, and nothing left of them."""

from __future__ import annotations

import pytest

from benchmarks.agent_driver import Footprint, RemoteAgent, scale_run

pytestmark = [pytest.mark.lab, pytest.mark.acceptance]

# The first large run leaves slabs, page tables and heap that the next ones use again (22 MB were seen);
# scripts/acceptance/scale.py looks at fifty.
FIRST_RUN_BYTES = 48 << 20
SETTLING_BYTES = 16 << 20


def test_a_thousand_queue_pairs_with_ten_thousand_regions_leave_nothing(agents: list[RemoteAgent]) -> None:
    before = [Footprint.of(agent) for agent in agents]
    flow = scale_run(agents, qps=1000, mrs_per_qp=10)["flows"]["a-b/requester"]
    assert flow["completed_messages"] > 1000
    assert flow["failed_qps"] == 0
    after = [Footprint.of(agent) for agent in agents]
    assert [one.leaks(other, FIRST_RUN_BYTES) for one, other in zip(before, after, strict=True)] == [[], []]


def test_run_after_run_leaves_nothing(agents: list[RemoteAgent]) -> None:
    scale_run(agents, qps=100, mrs_per_qp=10, seconds=0.5)
    before = [Footprint.of(agent) for agent in agents]
    for _ in range(6):
        scale_run(agents, qps=100, mrs_per_qp=10, seconds=0.5)
    after = [Footprint.of(agent) for agent in agents]
    assert [one.leaks(other, SETTLING_BYTES) for one, other in zip(before, after, strict=True)] == [[], []]
