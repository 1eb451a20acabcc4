"""Precision and recall of explanations."""

from __future__ import annotations

from random import Random

import pytest

from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import QpType
from tests.support.quality import inside, precision, recall, true_region

SPACE = load_space("nsdi22")

FILE = load_subsystem("F", SubsystemFile)
TRUTH = Truth(FILE, SPACE)
WITNESS = next(one.trigger for one in FILE.witnesses if one.mechanism is Mechanism.DATAGRAM_PREFETCH)
GOOD = Mfs(
    (
        Condition("qp_type", Op.EQUAL, QpType.UD),
        Condition("wqe_batch", Op.AT_LEAST, 64),
        Condition("recv_wq_depth", Op.AT_LEAST, 256),
    )
)


@pytest.mark.parametrize("rest_plain", [True, False])
def test_points_inside_a_set_satisfy_it(rest_plain: bool) -> None:
    points = inside(SPACE, GOOD, WITNESS, 40, Random(1), rest_plain=rest_plain)

    assert all(GOOD.covers(point) and SPACE.complaints(point) == [] for point in points)
    assert len({point.wqe_batch for point in points}) == 2
    assert len({point.loopback for point in points}) == (1 if rest_plain else 2)


def test_a_set_that_lacks_conditions_loses_precision_and_a_narrow_one_recall() -> None:
    region = true_region(SPACE, Mechanism.DATAGRAM_PREFETCH, FILE, TRUTH, 60, Random(1))
    wide, narrow = Mfs(GOOD.conditions[:1]), Mfs((*GOOD.conditions, Condition("numa_node", Op.EQUAL, 0)))

    def precise(mfs: Mfs) -> float:
        return precision(SPACE, mfs, WITNESS, FILE, TRUTH, 60, Random(2))

    assert (TRUTH.severities_alone(Mechanism.DATAGRAM_PREFETCH, region) > 0).all()
    assert precise(GOOD) > 0.9 > precise(wide)
    assert recall([GOOD], region) > 0.9 > recall([narrow], region)
    assert recall([narrow, Mfs((Condition("numa_node", Op.EQUAL, 1),))], region) == 1


def test_a_mechanism_that_a_subsystem_lacks_has_no_region() -> None:
    lacking = next(name for name in Mechanism if name not in {one.mechanism for one in FILE.witnesses})
    with pytest.raises(LookupError, match="no witness"):
        true_region(SPACE, lacking, FILE, TRUTH, 1, Random(1))
