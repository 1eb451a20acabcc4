"""Several single workloads: which share a set-up, and what is measured on it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from collie.campaign.single_run import Phase, SharedSetUp, shared_set_ups
from collie.detect.bounds import UNBOUNDED, Bound
from collie.detect.measurement import Measurement, Watch
from collie.ports import Measured, RunResult
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.setup import SetUp
from collie.workloads.workload import Opcode, Workload
from tests.support.planted import LOOPBACK, SPACE
from tests.support.searches import bench

PLAIN = SPACE.base
MANY = PLAIN.with_(qps=64)
SEND = PLAIN.with_(opcode=Opcode.SEND)
NARROW = PLAIN.with_(mtu=1024)


@dataclass
class Watched(FakeTestbed):
    """Keeps the set-up of every run, and ends the set-up after the runs of `broken`."""

    on: list[tuple[Workload, SetUp | None]] = field(default_factory=list)
    broken: Workload | None = None

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        self.on.append((workload, on))
        result = super().measure(workload, run, watch, on)
        return replace(result, stands=False) if isinstance(result, Measured) and workload == self.broken else result


def test_workloads_that_fit_share_a_set_up_with_room_for_all() -> None:
    (shared,) = shared_set_ups([PLAIN, MANY, SEND], SPACE)
    assert shared == SharedSetUp(MANY, (PLAIN, MANY, SEND))


def test_a_new_set_up_is_made_in_order_where_the_one_before_cannot_serve_and_says_why() -> None:
    first, second, third = shared_set_ups([PLAIN, NARROW, PLAIN], SPACE)
    assert [each.workloads for each in (first, second, third)] == [(PLAIN,), (NARROW,), (PLAIN,)]
    assert first.apart == ""
    assert "mtu differ" in second.apart
    assert "mtu differ" in third.apart


def test_a_common_set_up_that_breaks_a_limit_is_not_made() -> None:
    regions, queue_pairs = PLAIN.with_(mrs_per_qp=1024), PLAIN.with_(qps=1024)
    assert all(SPACE.allows(each) for each in (regions, queue_pairs))
    _, second = shared_set_ups([regions, queue_pairs], SPACE)
    assert second.apart == "1024 qps x 1024 mrs_per_qp = 1048576 memory regions; at most 200000"


def test_a_workload_outside_the_space_can_still_share() -> None:
    outside = [PLAIN.with_(offered_bps=10**9), MANY.with_(offered_bps=10**9)]
    assert len(shared_set_ups(outside, SPACE)) == 1


@pytest.mark.parametrize(("phases", "sizes"), [(None, [5]), (1, [1] * 5), (2, [2, 2, 1])])
def test_the_phases_of_a_set_up_can_be_limited(phases: int | None, sizes: list[int]) -> None:
    found = shared_set_ups([PLAIN] * 5, SPACE, phases)
    assert [len(each.workloads) for each in found] == sizes
    assert all(f"at most {phases} phase" in each.apart for each in found[1:])


def test_runs_of_one_set_up_follow_each_other_and_each_is_judged() -> None:
    testbed = Watched((Planted(LOOPBACK),))
    looping = PLAIN.with_(loopback=True)
    judged = bench(testbed).measure_all([MANY, looping, SEND])
    assert [each.workload for each in judged] == [MANY, looping, SEND]
    verdicts = [each.verdict for each in judged if each.verdict is not None]
    assert [verdict.is_anomalous for verdict in verdicts] == [False, True, False]
    made_for = MANY.with_(loopback=True)
    assert [each.phase for each in judged] == [Phase(1, 1, made_for), Phase(1, 2, made_for), Phase(1, 3, made_for)]
    own = [(workload, on) for workload, on in testbed.on if on and on.made_for == made_for]
    assert own[-3:] == [
        (MANY, SetUp(made_for)),
        (looping, SetUp(made_for, (MANY,))),
        (SEND, SetUp(made_for, (MANY, looping))),
    ]


def test_plain_siblings_run_before_and_share_a_set_up_too() -> None:
    testbed = Watched()
    judged = bench(testbed).measure_all([MANY, PLAIN.with_(messages=(1024,)), MANY.with_(sge_count=2)])
    siblings = list(dict.fromkeys(each.sibling for each in judged))
    assert [workload for workload, _ in testbed.on[: len(siblings)]] == siblings
    assert [len(on.before) for _, on in testbed.on[: len(siblings)] if on] == list(range(len(siblings)))
    assert len(testbed.on) == len(siblings) + 3


class Unsteady(Watched):
    """Hosts without a data sheet whose plain traffic never holds one level, so that a verdict asks for it again."""

    def specification(self, workload: Workload) -> Bound:
        return UNBOUNDED

    def _measurement(self, workload: Workload, displayed: Planted | None, rng: Random) -> Measurement:
        return replace(FakeTestbed()._measurement(workload, displayed, rng), stable=workload.sge_count > 1)


def test_no_plain_sibling_runs_after_the_phases_on_their_set_up() -> None:
    """What the phases left behind must not lower the bound."""
    testbed = Unsteady()
    lists = PLAIN.with_(sge_count=2)
    bench(testbed).measure_all([lists, lists.with_(qps=64)])
    last = max(index for index, (workload, _) in enumerate(testbed.on) if workload.sge_count > 1)
    siblings = testbed.on[last + 1 :]
    assert siblings
    assert all(on is None for _, on in siblings)


def test_with_one_phase_each_workload_has_a_set_up_of_its_own() -> None:
    testbed = Watched()
    judged = bench(testbed).measure_all([MANY, SEND], phases=1)
    assert [each.phase and (each.phase.set_up, each.phase.number) for each in judged] == [(1, 1), (2, 1)]
    assert (MANY, SetUp(MANY)) in testbed.on
    assert testbed.on[-1] == (SEND, SetUp(SEND))


def test_a_set_up_that_an_earlier_phase_ended_is_made_again_and_said_so() -> None:
    testbed = Watched(broken=MANY)
    phases = [each.phase for each in bench(testbed).measure_all([PLAIN, MANY, SEND])]
    assert [(each.set_up, each.number) for each in phases if each] == [(1, 1), (1, 2), (2, 1)]
    assert [each.apart for each in phases if each] == ["", "", "an earlier phase ended the set-up before"]
    assert testbed.on[-1] == (SEND, SetUp(MANY))


def test_workloads_that_are_measured_together_share_set_ups() -> None:
    testbed = Watched()
    bench(testbed).measure_together([MANY, SEND, NARROW])
    assert testbed.on[:3] == [(MANY, SetUp(MANY)), (SEND, SetUp(MANY, (MANY,))), (NARROW, SetUp(NARROW))]
