"""Control verbs beside the traffic, over a libibverbs that delivers within the process."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from ctypes import CDLL
from pathlib import Path
from typing import Any

import pytest

from collie.agent import control_verbs
from collie.agent.control_verbs import ControlVerbs
from collie.agent.faults import AgentFault
from collie.agent.paths import DataPath
from collie.agent.totals import NEW_QPS
from collie.agent.workload import Workload
from tests.support.data_paths import PATIENCE_SECONDS, STAMPING, Loopback, native_path
from tests.support.forked import Forked

BYTES = 1000


@pytest.fixture(params=[0, STAMPING], ids=["plain", "stamped"])
def path(request: pytest.FixtureRequest, libibverbs: Path) -> Iterator[DataPath]:
    with native_path(str(libibverbs), request.param) as native:
        yield native


@pytest.fixture
def loop(path: DataPath, fake: CDLL, request: pytest.FixtureRequest) -> Iterator[Loopback]:
    loop = Loopback(path, **{"opcode": "WRITE", "messages": [BYTES], **getattr(request, "param", {})})
    yield loop
    loop.close()


def workload(loop: Loopback) -> Workload:
    return loop.resources.ends[0].workload


KINDS = ("new_mrs", "new_qps", "new_ahs", "qp_errors")


def made(loop: Loopback) -> tuple[int, ...]:
    health = loop.read.health()
    return tuple(health[kind] for kind in KINDS)


def begun(loop: Loopback, engines: int = 1) -> ControlVerbs:
    verbs = ControlVerbs(loop.resources, loop.totals.words)
    verbs.admit([workload(loop)], engines)
    verbs.begin()
    return verbs


RATES = [
    {"new_mrs_per_second": 400, "new_qps_per_second": 100},
    {"new_mrs_per_second": 300, "opcode": "SEND", "mr_bytes": 65536, "srq": True},
    {"new_qps_per_second": 200, "qp_type": "UD", "opcode": "SEND", "messages": [64]},
    {"new_qps_per_second": 200, "qp_type": "UC"},
    {"new_ahs_per_second": 400, "new_mrs_per_second": 100, "qp_type": "UD", "opcode": "SEND", "messages": [64]},
    {"qp_errors_per_second": 300, "opcode": "SEND"},
    {"qp_errors_per_second": 300, "qp_type": "UC", "srq": True, "opcode": "SEND"},
]


@pytest.mark.parametrize("loop", RATES, indirect=True)
def test_each_kind_is_made_at_its_rate_while_traffic_runs(loop: Loopback) -> None:
    asked, began = workload(loop), time.monotonic()
    verbs = begun(loop)
    before = loop.requester["completed_messages"]
    loop.serve(lambda: max(made(loop)) >= 60)
    verbs.close()
    elapsed = time.monotonic() - began
    assert loop.requester["completed_messages"] > before
    for kind, count in zip(KINDS, made(loop), strict=True):
        rate = getattr(asked, f"{kind}_per_second")
        assert count <= rate * elapsed + (rate > 0), "no faster than asked"
        assert (count > 0) == (rate > 0)
    assert loop.read.health()["control_verb_errno"] == 0
    assert loop.read.health()["errors"] == {}, "the traffic has none of the errors"
    after = made(loop)
    time.sleep(0.05)
    assert made(loop) == after, "none is made after the end"


@pytest.mark.parametrize("loop", [{"new_mrs_per_second": 400, "control_verbs_imitated": True}], indirect=True)
def test_imitated_verbs_are_counted_and_few_are_made(loop: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    real, registered = loop.resources.v.MR, []

    def counted(*arguments: Any, **fields: Any) -> Any:
        registered.append(arguments)
        return real(*arguments, **fields)

    monkeypatch.setattr(loop.resources.v, "MR", counted, raising=False)
    began = time.monotonic()
    verbs = begun(loop)
    loop.serve(lambda: made(loop)[0] >= 30)
    verbs.close()
    assert made(loop)[0] <= 400 * (time.monotonic() - began) + 1
    assert len(registered) == control_verbs.REHEARSALS


@pytest.mark.parametrize("work", [lambda: time.sleep(0.02), lambda: sum(range(200_000))], ids=["sleeps", "computes"])
def test_an_imitation_takes_the_cpu_time_and_not_the_time(work: Callable[[], None]) -> None:
    def cpu_seconds(make: Callable[[], None]) -> float:
        before = time.thread_time()
        make()
        return time.thread_time() - before

    imitates = control_verbs.imitation(work)
    own = sorted(cpu_seconds(work) for _ in range(5))
    assert own[0] / 4 <= cpu_seconds(imitates) <= 4 * own[-1] + 0.002


@pytest.mark.parametrize("loop", [{"new_mrs_per_second": 400}], indirect=True)
def test_engines_share_the_rates(loop: Loopback) -> None:
    began = time.monotonic()
    verbs = begun(loop, engines=4)
    loop.serve(lambda: made(loop)[0] >= 10)
    verbs.close()
    assert made(loop)[0] <= 100 * (time.monotonic() - began) + 1


@pytest.mark.parametrize("loop", [{"new_mrs_per_second": 3000, "new_qps_per_second": 1000}], indirect=True)
def test_a_device_that_is_too_slow_makes_both_kinds_in_the_ratio_of_their_rates(
    loop: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowed(loop, monkeypatch, 0.005)
    monkeypatch.setattr(control_verbs, "LATE_SECONDS", 0.0)
    verbs = begun(loop)
    loop.serve(lambda: made(loop)[0] >= 60)
    verbs.close()
    regions, pairs, *_ = made(loop)
    assert regions == pytest.approx(3 * pairs, abs=4)


@pytest.mark.parametrize("loop", [{"new_mrs_per_second": 1000}], indirect=True)
def test_what_was_missed_long_ago_is_not_made_up_for(loop: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a device that stood still would get no rest afterwards."""
    monkeypatch.setattr(control_verbs, "LATE_SECONDS", 0.0)
    fast = loop.resources.v.MR
    slowed(loop, monkeypatch, 0.02)
    verbs = begun(loop)
    loop.serve(lambda: made(loop)[0] >= 10)
    monkeypatch.setattr(loop.resources.v, "MR", fast)
    began, before = time.monotonic(), made(loop)[0]
    loop.serve(lambda: made(loop)[0] >= before + 100)
    verbs.close()
    assert made(loop)[0] - before <= 1000 * (time.monotonic() - began) + 2


def slowed(loop: Loopback, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Have each registration take some time."""
    real = loop.resources.v.MR

    def slow(*arguments: Any, **fields: Any) -> Any:
        time.sleep(seconds)
        return real(*arguments, **fields)

    monkeypatch.setattr(loop.resources.v, "MR", slow, raising=False)


def test_without_rates_there_are_none(loop: Loopback) -> None:
    verbs = begun(loop)
    loop.serve(lambda: loop.requester["completed_messages"] >= 1000)
    assert not verbs.is_running
    verbs.close()
    assert not any(made(loop))


@pytest.mark.parametrize("loop", [{"new_qps_per_second": 1000}], indirect=True)
@pytest.mark.parametrize(
    ("error", "number"),
    [(AgentFault("setup", "create_qp", "no room", errno.ENOMEM), errno.ENOMEM), (ValueError("a bug"), errno.EIO)],
)
def test_a_verb_that_fails_is_the_last_and_leaves_its_error(
    loop: Loopback, monkeypatch: pytest.MonkeyPatch, error: Exception, number: int
) -> None:
    def fails(*_arguments: Any) -> None:
        raise error

    monkeypatch.setattr(loop.resources, "pair_to_itself", fails)
    verbs = begun(loop)
    loop.serve(lambda: not verbs.is_running)
    verbs.close()
    assert loop.read.health()["control_verb_errno"] == number
    assert not any(made(loop))


@pytest.mark.parametrize("loop", [{"qp_errors_per_second": 1000}], indirect=True)
def test_a_device_that_does_not_complete_a_request_beyond_its_region_is_named(
    loop: Loopback, fake: CDLL, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The queue pair goes all the same."""
    monkeypatch.setattr(control_verbs, "END_SECONDS", 0.1)
    verbs = begun(loop)
    fake.fake_hold(1)
    loop.serve(lambda: not verbs.is_running)
    fake.fake_hold(0)
    verbs.close()
    assert loop.read.health()["control_verb_errno"] == errno.EIO
    assert "control verbs: a request beyond its region does not complete" in capfd.readouterr().err


@pytest.mark.parametrize("loop", [{"qp_errors_per_second": 1000}], indirect=True)
def test_only_a_local_error_counts(
    loop: Loopback, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Devices whose region is larger than asked for carry the request out."""
    monkeypatch.setattr(control_verbs, "LOCAL_ERRORS", (1, 2))
    verbs = begun(loop)
    loop.serve(lambda: not verbs.is_running)
    verbs.close()
    assert not any(made(loop))
    assert "a request beyond its region ended with 'local protection error'" in capfd.readouterr().err


@pytest.mark.parametrize("loop", [{"qp_errors_per_second": 1000}], indirect=True)
def test_a_queue_pair_that_does_not_come_back_leaves_nothing(
    loop: Loopback, fake: CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays in RESET, from where no device takes it to ERR."""
    verbs = ControlVerbs(loop.resources, loop.totals.words)
    live = fake.fake_live()
    verbs.admit([workload(loop)], 1)

    def fails(*_arguments: Any) -> None:
        raise OSError(errno.ENOMEM, "no room")

    monkeypatch.setattr(loop.resources.v.QP, "to_init", fails)
    verbs.begin()
    loop.serve(lambda: not verbs.is_running)
    verbs.close()
    assert loop.read.health()["control_verb_errno"] == errno.ENOMEM
    assert fake.fake_live() == live


@pytest.mark.parametrize("loop", [{"qp_errors_per_second": 1000}], indirect=True)
def test_a_queue_pair_to_break_needs_room(loop: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(loop.resources.limits, "check_totals", lambda qps, mrs: asked.append((qps, mrs)))
    begun(loop, engines=3).close()
    loop.resources.check_room(0, 0)
    (qps, mrs), (traffic_qps, traffic_mrs) = asked
    assert (qps - traffic_qps, mrs - traffic_mrs) == (6, 6)


@pytest.mark.parametrize("loop", [{"new_mrs_per_second": 1000}], indirect=True)
def test_a_verb_that_does_not_end_is_named(loop: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_verbs, "END_SECONDS", 0.01)
    slowed(loop, monkeypatch, 0.5)
    verbs = begun(loop)
    with pytest.raises(AgentFault, match="a control verb takes more than"):
        verbs.close()
    monkeypatch.undo()
    verbs.close()


@pytest.mark.parametrize("processes", [1, 2])
def test_each_phase_has_its_own_rates_which_its_engines_share(
    fork: Callable[..., Forked], path: DataPath, processes: int
) -> None:
    """A phase can have fewer queue pairs than there are engines. Those that have some make all verbs."""
    run = fork(processes, opcode="WRITE", qps=5)
    health = run.engines.totals.health
    for rates, qps in (({"new_mrs_per_second": 300}, 5), ({}, 5), ({"new_qps_per_second": 100}, 1)):
        began = time.monotonic()
        run.start(qps=qps, **rates)
        run.wait(lambda: run.requester["completed_messages"] >= 1000)
        if rates:
            run.wait(lambda: health()["new_mrs"] + health()["new_qps"] >= 30)
        assert run.ask("stop", drain_seconds=PATIENCE_SECONDS)["drained"]
        elapsed, done = time.monotonic() - began, health()
        for name in ("new_mrs", "new_qps"):
            assert done[name] <= rates.get(f"{name}_per_second", 0) * elapsed + 2
        assert done["control_verb_errno"] == 0
        if qps == 1:
            assert [member.totals.words[NEW_QPS] > 0 for member in run.engines.members] == [True, False][:processes]
    run.close()
