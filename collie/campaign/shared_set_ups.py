"""Workloads that run as phases of common set-ups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from collie.workloads.setup import made_for_all
from collie.workloads.space import Space
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class SharedSetUp:
    """Workloads that run as phases of one set-up, in order. `apart` is why the set-up before could not serve them."""

    made_for: Workload
    workloads: tuple[Workload, ...]
    apart: str = ""


def shared_set_ups(workloads: Sequence[Workload], space: Space, phases: int | None = None) -> list[SharedSetUp]:
    """Divide workloads among set-ups without changing their order. `phases` limits the workloads of each."""
    found: list[SharedSetUp] = []
    for workload in workloads:
        before = found[-1].workloads if found else ()
        if before and phases is not None and len(before) >= phases:
            apart = f"a set-up has at most {phases} phase{'s' * (phases > 1)}"
        else:
            apart = _apart(before, workload, space)
        if before and not apart:
            together = (*before, workload)
            found[-1] = replace(found[-1], made_for=made_for_all(together), workloads=together)
        else:
            found.append(SharedSetUp(workload, (workload,), apart))
    return found


def _apart(before: tuple[Workload, ...], workload: Workload, space: Space) -> str:
    """Return why no set-up serves a workload and those before it, or an empty text."""
    together = (*before, workload)
    made_for = made_for_all(together)
    # The common set-up can be too large for the space although no workload is.
    own = {complaint for each in together for complaint in space.complaints(each)}
    too_large = (text for name, text in space.complaints(made_for) if (name, text) not in own)
    misfits = (text for each in together if (text := space.misfit(each, made_for)))
    return next(misfits, None) or next(too_large, "")
