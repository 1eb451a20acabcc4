"""Runs without an answer, by cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collie.ports import HostLost, PairLost, RunRecord, SetupFailed, Unsupported

_NUMBER = re.compile(r"\d[\d.,]*\d|\d")


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Runs with one cause. `example` is the first message, or empty if that equals the cause."""

    kind: str
    cause: str
    runs: tuple[int, ...]
    example: str


def unanswered(records: Iterable[RunRecord]) -> tuple[FailureGroup, ...]:
    """Return groups by kind, larger groups first. Reasons that differ only in their numbers form one group."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for record in records:
        for kind, cause, detail in _causes(record):
            found.setdefault((kind, cause), []).append((record.run, detail))
    causes = [
        FailureGroup(kind, cause, tuple(run for run, _ in seen), "" if seen[0][1] == cause else seen[0][1])
        for (kind, cause), seen in found.items()
    ]
    return tuple(sorted(causes, key=lambda cause: (_KINDS.index(cause.kind), -len(cause.runs))))


_KINDS = ("set-up failed", "host lost", "pair lost", "unsupported", "inconclusive")


def _causes(record: RunRecord) -> Iterator[tuple[str, str, str]]:
    match record.result:
        case SetupFailed(cause, detail):
            yield "set-up failed", cause, detail
        case HostLost(host, detail):
            yield "host lost", f"host {host}", detail
        case PairLost(pair, detail):
            yield "pair lost", pair, detail
        case Unsupported(reason):
            yield "unsupported", _like(reason), reason
        case _:
            if record.verdict is not None and record.verdict.is_inconclusive:
                yield "inconclusive", _like(record.verdict.reason), record.verdict.reason


def _like(reason: str) -> str:
    return _NUMBER.sub("…", reason)
