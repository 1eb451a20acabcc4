"""The contenders that the search is measured against."""

from __future__ import annotations

CONTENDERS = (
    "random",
    "nsdi22-diag",
    "nsdi22-perf",
    "nsdi22-diag-no-mfs",
    "nsdi22-perf-no-mfs",
    "optuna-tpe",
    "optuna-gp",
)
