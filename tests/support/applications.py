"""Applications and known anomalies for tests of advice."""

from __future__ import annotations

from functools import cache
from typing import Any

from collie.advise.check import Advice, check
from collie.advise.overlap import Known
from collie.app import checks
from collie.content.spaces import load_space
from collie.wiring import ADAPTERS
from collie.workloads.application import Sizes, Traffic
from collie.workloads.feature import Condition, Mfs
from collie.workloads.workload import Workload

SPACE = load_space("nsdi22")


@cache
def published(subsystem: str | None = None) -> tuple[Known, ...]:
    return checks.known_anomalies(ADAPTERS, "nsdi22", subsystem).known


@cache
def advice(name: str, subsystem: str) -> Advice:
    return check(checks.application_named(ADAPTERS, name), published(subsystem))


def hits(found: Advice) -> list[str]:
    return [hit.known.id for hit in found.hits]


def traffic(**values: Any) -> Traffic:
    plain: dict[str, Any] = {name: (SPACE.base.get(name),) for name in SPACE.dimensions if name != "messages"}
    sizes = values.pop("messages", Sizes(range(64, 65537)))
    return Traffic("some", SPACE.base, {**plain, **values}, sizes)


def known(identifier: str, *conditions: Condition, is_coarse: bool = False) -> Known:
    return Known(identifier, identifier, Mfs(conditions), Workload(), is_coarse=is_coarse)
