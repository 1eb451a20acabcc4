"""The workloads of an application that are most likely to be slow."""

from __future__ import annotations

from dataclasses import replace

from collie.advise.corners import corners
from collie.advise.overlap import Known
from collie.workloads.application import Application, Sizes, Traffic
from collie.workloads.feature import Condition, Mfs, Op
from tests.support.planted import SPACE

TRAFFIC = replace(
    Traffic.of("bulk", SPACE.base, SPACE),
    values={**Traffic.of("bulk", SPACE.base, SPACE).values, "qps": range(1, 129), "wqe_batch": (1, 2, 4, 8)},
    sizes=Sizes((64, 4096, 65536)),
)
APPLICATION = Application("app", "an application", SPACE, (TRAFFIC,))


def known(name: str, *conditions: Condition) -> Known:
    return Known(name, "it pauses", Mfs(conditions), SPACE.base.with_(qps=48))


def test_known_anomalies_come_first_then_the_ends_of_what_the_application_does() -> None:
    can = known("can", Condition("qps", Op.AT_LEAST, 32))
    cannot = known("cannot", Condition("qps", Op.AT_LEAST, 500))
    found = corners(APPLICATION, (can, cannot))
    assert [corner.why for corner in found] == ["can", "heaviest, longest messages", "heaviest, shortest messages"]
    assert {corner.traffic for corner in found} == {"bulk"}
    first, longest, shortest = (corner.workload for corner in found)
    assert first.qps == 48, "the value at which the anomaly was seen"
    assert (longest.qps, longest.wqe_batch, longest.messages) == (128, 8, (65536,))
    assert (shortest.qps, shortest.wqe_batch, shortest.messages) == (128, 8, (64,))
    assert all(TRAFFIC.holds(corner.workload) and SPACE.allows(corner.workload) for corner in found)


def test_a_workload_is_one_corner_only() -> None:
    one = Application.of("one", SPACE.base, SPACE)
    (corner,) = corners(one, (known("all", Condition("qps", Op.AT_LEAST, 1)),))
    assert (corner.why, corner.workload) == ("all", SPACE.base)
