"""What an explanation makes of a testbed that becomes slower."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from collie.campaign.events import AnomalyExplained
from collie.detect.measurement import Watch
from collie.detect.symptom import Symptom
from collie.ports import RunResult
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.explained import confirmed_anomaly, explained_search
from tests.support.planted import LOOPBACK, SPACE

LISTS = Mfs((Condition("sge_count", Op.AT_LEAST, 4),))
SLOW_LISTS = Mfs((*LOOPBACK.conditions, *LISTS.conditions))
FOUND = SPACE.base.with_(loopback=True, sge_count=16)
ELSEWHERE = Mfs((Condition("qps", Op.AT_LEAST, 16384),))
ELSEWHERE_FOUND = SPACE.base.with_(qps=16384)


@dataclass
class SlowerTestbed(FakeTestbed):
    """A fake testbed whose line loses a share of its rate after the first runs."""

    fast_runs: int = 4
    lost: float = 0.0

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        """Measure, after the first runs on the slower line."""
        full = self.line_bps
        self.line_bps = full * (1.0 - self.lost if self.runs >= self.fast_runs else 1.0)
        try:
            return super().measure(workload, run, watch, on)
        finally:
            self.line_bps = full


@pytest.mark.parametrize(("lost", "simplest_shows"), [(0.0, True), (0.2, False)])
def test_the_simplest_workload_misses_what_its_plain_sibling_gives_now(lost: float, *, simplest_shows: bool) -> None:
    mild = Planted(LOOPBACK, Symptom.LOW_THROUGHPUT, 0.08 if lost else 0.3)
    testbed = SlowerTestbed((Planted(SLOW_LISTS, Symptom.LOW_THROUGHPUT, 0.5), mild), lost=lost)
    search = explained_search(testbed, ELSEWHERE, ELSEWHERE_FOUND)
    confirmed = confirmed_anomaly(search.measurer, "a2", FOUND, Mfs(()))
    confirmed.anomaly = replace(confirmed.anomaly, symptom=Symptom.LOW_THROUGHPUT)
    search.loop._triage.waiting.append(confirmed)
    search.drive(search.loop._explainer.explain(search.lane, confirmed))
    (explained,) = search.sink.of(AnomalyExplained)
    assert (explained.anomaly.workload != FOUND) == simplest_shows
