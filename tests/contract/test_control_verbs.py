"""Control verbs beside the traffic, over a libibverbs that delivers within the process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from ctypes import CDLL
from pathlib import Path
from typing import Any

import pytest

from collie.agent import control_verbs
from collie.agent.control_verbs import ControlVerbs
from collie.agent.faults import AgentFault
from collie.agent.paths import DataPath, load_native
from collie.agent.workload import Workload
from tests.support.data_paths import Loopback

BYTES = 1000


@pytest.fixture
def path(libibverbs: Path) -> DataPath:
    return load_native(str(libibverbs))


@pytest.fixture
def loop(path: DataPath, fake: CDLL, request: pytest.FixtureRequest) -> Iterator[Loopback]:
    loop = Loopback(path, **{"opcode": "WRITE", "messages": [BYTES], **getattr(request, "param", {})})
    yield loop
    loop.close()


def workload(loop: Loopback) -> Workload:
    return loop.resources.ends[0].workload


def made(loop: Loopback) -> tuple[int, int]:
    health = loop.read.health()
    return health["new_mrs"], health["new_qps"]


RATES = [
    {"new_mrs_per_second": 400, "new_qps_per_second": 100},
    {"new_mrs_per_second": 300, "opcode": "SEND", "mr_bytes": 65536},
    {"new_qps_per_second": 200, "qp_type": "UD", "opcode": "SEND", "messages": [64]},
    {"new_qps_per_second": 200, "qp_type": "UC", "huge_pages": False},
]


@pytest.mark.parametrize("loop", RATES, indirect=True)
def test_both_kinds_are_made_at_their_rates_while_traffic_runs(loop: Loopback) -> None:
    verbs, asked = ControlVerbs(loop.resources, loop.totals.words), workload(loop)
    began = time.monotonic()
    verbs.begin(asked, 1)
    before = loop.requester["completed_messages"]
    loop.serve(lambda: max(made(loop)) >= 60)
    verbs.end()
    elapsed = time.monotonic() - began
    verbs.check()
    assert loop.requester["completed_messages"] > before
    for count, rate in zip(made(loop), (asked.new_mrs_per_second, asked.new_qps_per_second), strict=True):
        assert count <= rate * elapsed + (rate > 0), "no faster than asked"
        assert (count > 0) == (rate > 0)
    after = made(loop)
    time.sleep(0.05)
    assert made(loop) == after, "none is made after the end"


@pytest.mark.parametrize("loop", [{"new_mrs_per_second": 400}], indirect=True)
def test_engines_share_the_rates(loop: Loopback) -> None:
    verbs = ControlVerbs(loop.resources, loop.totals.words)
    began = time.monotonic()
    verbs.begin(workload(loop), 4)
    loop.serve(lambda: made(loop)[0] >= 10)
    verbs.end()
    assert made(loop)[0] <= 100 * (time.monotonic() - began) + 1


@pytest.mark.parametrize("loop", [{"new_mrs_per_second": 1000}], indirect=True)
def test_what_was_missed_long_ago_is_not_made_up_for(loop: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a device that stood still would get no rest afterwards."""
    monkeypatch.setattr(control_verbs, "LATE_SECONDS", 0.0)
    real, began = loop.resources.v.MR, time.monotonic()

    def slow(*arguments: Any, **fields: Any) -> Any:
        time.sleep(0.02)
        return real(*arguments, **fields)

    monkeypatch.setattr(loop.resources.v, "MR", slow, raising=False)
    verbs = ControlVerbs(loop.resources, loop.totals.words)
    verbs.begin(workload(loop), 1)
    loop.serve(lambda: made(loop)[0] >= 10)
    monkeypatch.setattr(loop.resources.v, "MR", real)
    began, before = time.monotonic(), made(loop)[0]
    loop.serve(lambda: made(loop)[0] >= before + 100)
    verbs.end()
    assert made(loop)[0] - before <= 1000 * (time.monotonic() - began) + 2


def test_without_rates_there_are_none(loop: Loopback) -> None:
    verbs = ControlVerbs(loop.resources, loop.totals.words)
    verbs.begin(workload(loop), 1)
    loop.serve(lambda: loop.requester["completed_messages"] >= 1000)
    verbs.end()
    verbs.check()
    assert made(loop) == (0, 0)


@pytest.mark.parametrize("loop", [{"new_qps_per_second": 1000}], indirect=True)
def test_a_verb_that_fails_is_named(loop: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: Any) -> None:
        raise AgentFault("setup", "create_qp", "create_qp: Cannot allocate memory")

    monkeypatch.setattr(loop.resources, "make_and_destroy_pair", fails)
    verbs = ControlVerbs(loop.resources, loop.totals.words)
    verbs.begin(workload(loop), 1)
    deadline = time.monotonic() + 30
    while verbs._fault is None and time.monotonic() < deadline:
        time.sleep(0.001)
    verbs.end()
    with pytest.raises(AgentFault, match="Cannot allocate memory"):
        verbs.check()
    verbs.check()
