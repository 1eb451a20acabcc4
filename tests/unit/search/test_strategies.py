"""Strategies by name."""

from __future__ import annotations

from random import Random

import pytest

from collie.content.spaces import load_space
from collie.search.phases import roomy
from collie.search.recipe import Recipe, StrategyName
from collie.search.strategies import STRATEGIES, build
from collie.workloads.setup import SetUp
from collie.workloads.workload import Opcode, QpType
from tests.support.driven_counters import CATALOG

SPACE = load_space("nsdi22")


def test_every_named_strategy_can_be_built() -> None:
    assert set(STRATEGIES) == set(StrategyName)
    for name in set(StrategyName) - {StrategyName.PLUGIN}:
        strategy = build(Recipe("test", strategy=name), SPACE, CATALOG, Random(0))
        assert SPACE.complaints(strategy.ask()) == []


@pytest.mark.parametrize("name", [StrategyName.RANDOM, StrategyName.GUIDED])
def test_drawn_phases_mostly_use_what_their_set_up_has(name: StrategyName) -> None:
    """What many queue pairs or long queues take would otherwise hardly ever show after the first phase."""
    strategy = build(Recipe("test", strategy=name), SPACE, CATALOG, Random(3))
    for _ in range(20):
        strategy.ask()  # `guided` begins with plain traffic
    made_for = SPACE.base.with_(qps=512, send_wq_depth=2048, recv_wq_depth=2048, sge_count=4)
    set_up = SetUp(roomy(SPACE, made_for))
    drawn = [workload for _ in range(300) if (workload := strategy.ask_on(set_up)) is not None]
    for capacity in ("qps", "send_wq_depth", "recv_wq_depth", "sge_count"):
        full = sum(each.get(capacity) == set_up.made_for.get(capacity) for each in drawn) / len(drawn)
        assert 0.75 <= full < 1.0, capacity


@pytest.mark.parametrize("name", [StrategyName.RANDOM, StrategyName.GUIDED])
@pytest.mark.parametrize("qp_type", [QpType.RC, QpType.UC, QpType.UD])
@pytest.mark.parametrize("srq", [False, True])
def test_drawn_phases_fit_their_set_up_and_differ(name: StrategyName, qp_type: QpType, srq: bool) -> None:
    """What does not fit would have a set-up of its own with most values of this one.

    A search of Soft-RoCE did not leave shared receive queues any more, whose receives keep their shape.
    """
    space = load_space("soft-roce-load")
    strategy = build(Recipe("test", strategy=name), space, CATALOG, Random(3))
    for _ in range(40):
        strategy.ask()  # `guided` begins with plain traffic
    made_for = space.base.with_(qp_type=qp_type, opcode=Opcode.SEND, srq=srq, mtu=1024, messages=(1024, 64), qps=8)
    set_up = SetUp(roomy(space, made_for))
    drawn = [strategy.ask_on(set_up) for _ in range(60)]
    asked = [workload for workload in drawn if workload is not None]
    assert len(asked) > 50
    assert [each for each in asked if space.misfit(each, set_up.made_for) is not None] == []
    assert len({each.offered_bps for each in asked}) == 7
    assert len({each.messages for each in asked if each.opcode is Opcode.SEND}) == 1 or not srq
