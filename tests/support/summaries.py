"""Results of commands for tests of their output."""

from __future__ import annotations

from collie.campaign.summary import Score
from collie.search.likely_cause import DiscriminatingCounter

SCORE = Score(
    mechanisms={"a1": "receive_wqe_cache", "a2": "loopback"},
    planted=("receive_wqe_cache", "loopback"),
    found=("receive_wqe_cache",),
    explained=("receive_wqe_cache",),
    missed=("loopback",),
    false=1,
    absent=("context_cache",),
    joined=1,
    hidden=("loopback",),
    merged_wrong={"a2": ("loopback", "receive_wqe_cache")},
)
TELLING = DiscriminatingCounter("pressure", "receive WQE cache", 1234.5, "receives that had to be fetched", 2.0, 4)
