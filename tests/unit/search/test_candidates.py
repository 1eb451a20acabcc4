"""Candidates for the next probe."""

from __future__ import annotations

from random import Random

from collie.content.spaces import load_space
from collie.search.candidates import Candidates
from collie.workloads.feature import Condition, Mfs, Op
from tests.support.extractions import hypotheses

SPACE = load_space("nsdi22")


def test_candidates_are_valid_possible_and_new() -> None:
    rng = Random(3)
    forbidden = Mfs((Condition("loopback", Op.EQUAL, True),))
    finding = next(w for w in iter(lambda: SPACE.sample(rng), None) if not w.loopback)
    limits, left = hypotheses(finding, Mfs((Condition("qps", Op.AT_LEAST, 1),)), [])
    around = Candidates(SPACE, limits, rng, lambda workload: not forbidden.covers(workload)).around(finding, left)
    assert len(around) > 100
    assert len({candidate.workload for candidate in around}) == len(around)
    assert all(SPACE.allows(c.workload) and not c.workload.loopback and c.workload != finding for c in around)
