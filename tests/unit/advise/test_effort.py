"""The bound on the work for one application."""

from __future__ import annotations

import pytest

from collie.advise.check import check
from collie.advise.effort import QUESTION_STEPS, Effort, Undecided
from collie.advise.overlap import Known
from collie.advise.solver import find
from collie.app import checks
from collie.report.terminal.advice import render_advice
from collie.wiring import ADAPTERS
from collie.workloads.application import Application, Sizes, Traffic, Values
from collie.workloads.dimension import Ordered, Vector
from collie.workloads.feature import Condition, Mfs, Op
from tests.support.applications import SPACE, advice, hits, published


def anything() -> Application:
    """An application of which the file says `any` for every dimension."""
    values: dict[str, Values] = {}
    for name, dimension in SPACE.dimensions.items():
        if isinstance(dimension, Vector):
            sizes = Sizes(range(dimension.element.low, dimension.element.high + 1), dimension.max_length)
        elif isinstance(dimension, Ordered) and not dimension.ladder_only:
            values[name] = range(dimension.low, dimension.high + 1, dimension.step)
        else:
            values[name] = dimension.candidates()
    return Application("anything", "all there is", SPACE, (Traffic("any", SPACE.base, values, sizes),))


PRODUCTS = ("total_mrs", "total_recv_wqes", "total_send_wqes", "total_qps")
SIZES = ("min_message_bytes", "max_message_bytes", "min_segment_bytes", "max_segment_bytes", "total_qps")


def lists(features: tuple[str, ...]) -> tuple[Condition, ...]:
    return tuple(
        Condition(name, Op.ONE_OF, tuple(range(1000 + place, 90_000, 1013 + place)))
        for place, name in enumerate(features)
    )


@pytest.mark.parametrize(
    "conditions",
    [
        lists(PRODUCTS),
        lists(SIZES),
        (
            Condition("min_segment_bytes", Op.EQUAL, 777),
            Condition("max_segment_bytes", Op.EQUAL, 778),
            Condition("total_mrs", Op.EQUAL, 99_991),
        ),
    ],
    ids=["lists of products", "lists of sizes", "a product that is prime"],
)
def test_what_would_take_for_ever_is_not_decided_and_says_so(conditions: tuple[Condition, ...]) -> None:
    known = Known("a1", "It is slow.", Mfs(conditions), SPACE.base)

    found = check(anything(), [known])

    assert [(each.known, each.steps) for each in found.open] == [(known, QUESTION_STEPS)]
    assert found.hits == ()
    assert found.remedy_undecided == QUESTION_STEPS
    text = render_advice(found, checks.Collection((known,)), {})
    assert "can hit none of 1 known anomaly; of 1 it is not known" in text
    assert "a1  It is slow\n  hit      not decided: more than 50,000 combinations of values; narrow the" in text


def test_many_conditions_on_one_feature_are_as_easy_as_the_tightest() -> None:
    several = tuple(Condition(name, Op.AT_LEAST, low) for low in range(1, 2000) for name in PRODUCTS[:3])
    effort = Effort(1000)

    found = find(anything().traffic[0], SPACE, Mfs(several), SPACE.base, effort)

    assert found is not None
    assert Mfs(several).covers(found)


def test_a_list_of_which_no_value_can_be_had_is_decided_without_trying_each() -> None:
    beyond = tuple(Condition(name, Op.ONE_OF, tuple(range(10**13, 10**13 + 200))) for name in PRODUCTS)

    assert find(anything().traffic[0], SPACE, Mfs(beyond), SPACE.base, Effort(1000)) is None


def test_one_effort_bounds_all_questions_together() -> None:
    known = [Known(f"a{place}", "It is slow.", Mfs(lists(PRODUCTS)), SPACE.base) for place in range(5)]

    found = check(anything(), known, Effort(2 * QUESTION_STEPS + 10))

    assert [each.steps for each in found.open] == [QUESTION_STEPS] * 2 + [2 * QUESTION_STEPS + 10] * 3


def test_hits_are_reported_although_their_changes_are_not_decided() -> None:
    found = check(checks.application_named(ADAPTERS, "rpc-library"), published("F"), Effort(4000))

    undecided = [hit for hit in found.hits if hit.undecided]
    assert undecided
    assert set(hits(found)) <= set(hits(advice("rpc-library", "F")))
    assert "  change   not decided: more than" in render_advice(found, checks.Collection(published("F")), {})
    assert "Changes after which it hits none of them: not decided" in render_advice(
        found, checks.Collection(published("F")), {}
    )


def test_a_budget_ends_after_its_last_step() -> None:
    effort = Effort(2)
    effort.spend()
    effort.spend()
    with pytest.raises(Undecided):
        effort.spend()
