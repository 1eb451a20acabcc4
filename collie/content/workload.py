"""Workload files."""

from __future__ import annotations

from pathlib import Path

from collie.content.document import read_document
from collie.content.fields import read_workload
from collie.content.kinds import WORKLOAD, require_kind
from collie.content.spaces import varied_in
from collie.errors import ContentError, Problems
from collie.workloads.constraint import VERBS
from collie.workloads.space import Space
from collie.workloads.workload import Workload


def load_workload(path: Path | str, space: Space | None = None) -> Workload:
    """Read a workload file.

    `space` gives plain values, ranges and limits. Without it, only combinations that no device can run are refused.
    """
    document = read_document(Path(path), str(path))
    require_kind(document, WORKLOAD)
    problems = Problems()
    base = space.base if space else Workload()
    constraints = space.constraints if space else VERBS
    workload = read_workload(document, (), base, constraints, problems)
    if space and workload:
        for field, complaint in space.complaints(workload, varied_in):
            problems.append(document.problem(complaint, field))
    if problems or workload is None:
        raise ContentError(problems)
    return workload
