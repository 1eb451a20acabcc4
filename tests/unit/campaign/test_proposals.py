"""What a search runs next."""

from __future__ import annotations

from collie.campaign.proposals import Proposals
from collie.search.anomaly import KnownAnomalies
from collie.testing.fakes import FakeTestbed
from collie.workloads.setup import SetUp
from tests.support.explained import explained_search
from tests.support.planted import SPACE
from tests.support.scripted import Scripted
from tests.support.searches import RANDOM

PLAIN = SPACE.base
FITS, ELSEWHERE = PLAIN.with_(wqe_batch=8), PLAIN.with_(mtu=1024)


def test_a_proposal_that_does_not_fit_a_set_up_gets_one_of_its_own_next() -> None:
    explained = explained_search(FakeTestbed())
    triage, measurer = explained.loop._triage, explained.measurer
    proposals = Proposals(Scripted([FITS, ELSEWHERE]), SPACE, RANDOM, KnownAnomalies(()), triage, measurer)
    set_up = SetUp(PLAIN)
    on_it = proposals.phase(set_up)
    assert on_it is not None
    assert on_it.workload == FITS
    assert proposals.phase(set_up) is None
    kept = proposals.first()
    assert kept is not None
    assert kept.workload == ELSEWHERE


def test_a_set_up_without_a_further_proposal_leaves_none() -> None:
    explained = explained_search(FakeTestbed())
    triage, measurer = explained.loop._triage, explained.measurer
    strategy = Scripted([])
    proposals = Proposals(strategy, SPACE, RANDOM, KnownAnomalies(()), triage, measurer)
    assert proposals.phase(SetUp(PLAIN)) is None
    strategy.proposals = [FITS]
    first = proposals.first()
    assert first is not None
    assert first.workload == FITS
