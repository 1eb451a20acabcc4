"""The answer of a gate, for tests of what keeps and shows it."""

from __future__ import annotations

from collie.campaign.gate.answer import AnsweredCase, GateAnswer
from collie.detect.compare import Change


def case(change: Change, name: str, title: str) -> AnsweredCase:
    """Return a case."""
    reason = "baseline: host a receives 183 Gbit/s; candidate: host a sends pause for 29.4% of the time"
    return AnsweredCase(change, name, title, reason, "throughput x0.70", "over 99.9%", f"collie reproduce {name}")


ANSWER = GateAnswer(
    headline="gate failed: 1 new, 1 still there, 1 absent",
    baseline="base",
    candidate="--subsystem F",
    differences=("subsystem.firmware: 22.31 in the baseline, 22.28 in the candidate",),
    cases=(
        case(Change.NEW, "nsdi22-10", "Very many queue pairs send pause"),
        case(Change.STILL, "base-a1", "Small WRITEs lose throughput"),
        case(Change.HEALTHY, "nsdi22-14", "Traffic in turns"),
    ),
    notes=(
        "4 of 4 neighbours are healthy",
        "the search of 34 runs (16 min of testbed time) found nothing beyond these",
    ),
)
