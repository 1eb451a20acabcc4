"""A data path that dies under a testbed: named, waited for, mended, and never taken for an anomaly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collie.clock import SystemClock
from collie.detect.measurement import Sample
from collie.errors import TestbedError
from collie.hosts.outage import may_be_outage
from collie.hosts.testbed import HostsTestbed
from collie.hosts.timing import HostTiming
from collie.inventory.hosts import Host
from collie.ports import Measured, Reviver, SetupFailed
from collie.workloads.workload import Workload
from tests.integration.hosts_rig import ARCHIVE, CATALOG, PAIR, QUICK, Rig, local


class Impatient(SystemClock):
    """A clock on which nobody waits longer than a moment, and on which an outage ends after some waits."""

    def __init__(self, cut: Path) -> None:
        self.cut = cut
        self.waits_left: int | None = None

    def sleep(self, seconds: float, until: object = None) -> None:
        del until
        super().sleep(min(seconds, 0.02))
        if seconds == 2.0 and self.waits_left is not None:
            self.waits_left -= 1
            if self.waits_left < 0:
                self.cut.unlink(missing_ok=True)


class Mender:
    """Mends data paths, and remembers whose."""

    def __init__(self, cut: Path) -> None:
        self.cut = cut
        self.mended: list[list[str]] = []

    def revive(self, host: Host) -> None:
        raise AssertionError(f"{host.name} answers")

    def mend(self, hosts: Sequence[Host]) -> tuple[str, ...]:
        self.mended.append([host.name for host in hosts])
        self.cut.unlink()
        return ("right",)


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    (tmp_path / "right").mkdir()
    return tmp_path / "right" / "cut"


@pytest.fixture
def clock(cut: Path) -> Impatient:
    return Impatient(cut)


def opened(cut: Path, clock: Impatient, reviver: Reviver | None = None) -> Iterator[Rig]:
    directory = cut.parent.parent
    testbed = HostsTestbed(
        PAIR,
        local(directory),
        lambda _: CATALOG,
        policy=QUICK,
        clock=clock,
        archive=ARCHIVE,
        reviver=reviver,
        timing=HostTiming(recovery_seconds=1.0, retry=QUICK),
    )
    yield Rig(directory, testbed)
    testbed.close()


@pytest.fixture
def rig(cut: Path, clock: Impatient) -> Iterator[Rig]:
    yield from opened(cut, clock)


def test_an_outage_that_ends_by_itself_costs_one_run(rig: Rig, cut: Path, clock: Impatient) -> None:
    cut.touch()
    clock.waits_left = 2
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, SetupFailed)
    assert result.of_outage
    assert "data path left -> right: unknown cause: " in result.detail
    assert "It was back after" in result.detail
    assert isinstance(rig.testbed.measure(Workload(), 2), Measured)


def test_a_dead_data_path_is_mended_where_the_hosts_can_be(cut: Path, clock: Impatient) -> None:
    mender = Mender(cut)
    for rig in opened(cut, clock, mender):
        cut.touch()
        result = rig.testbed.measure(Workload(), 1)
        assert isinstance(result, SetupFailed)
        assert result.of_outage
        assert "repaired by a restart of right" in result.detail
        assert mender.mended == [["left", "right"]]
        assert isinstance(rig.testbed.measure(Workload(), 2), Measured)
        assert [rig.asked(host).count("bye") for host in ("left", "right")] == [0, 1]


def test_a_data_path_that_stays_dead_ends_the_testbed_with_its_cause(rig: Rig, cut: Path) -> None:
    cut.touch()
    with pytest.raises(
        TestbedError, match=r"data path left -> right: .*; repair on left: .*\. It has been dead for 1 s"
    ):
        rig.testbed.measure(Workload(), 1)


def test_completion_errors_are_no_finding_where_the_data_path_died(rig: Rig, cut: Path, clock: Impatient) -> None:
    rig.behave("left", errors={"transport retry counter exceeded": 2})
    workload = Workload(qps=2)
    alive = rig.testbed.measure(workload, 1)
    assert isinstance(alive, Measured)
    assert alive.measurement.health.completion_errors == {"transport retry counter exceeded": 2}
    clock.waits_left = 1

    def cuts(_sample: Sample) -> None:
        if clock.waits_left:
            cut.touch()

    died = rig.testbed.measure(workload, 2, cuts)
    assert isinstance(died, SetupFailed)
    assert died.of_outage


def test_a_receiver_that_gets_nothing_is_doubted(rig: Rig) -> None:
    rig.behave("left", bytes_per_second=0)
    with pytest.raises(TestbedError, match="nothing was received"):
        rig.testbed.measure(Workload(), 1)


def test_a_run_is_doubted_whose_traffic_has_ceased_by_its_end(rig: Rig) -> None:
    sound = rig.testbed.measure(Workload(), 1)
    assert isinstance(sound, Measured)
    assert not may_be_outage(Workload(), sound)
    last = max((each for each in sound.measurement.series if each.host == "b"), key=lambda each: each.seconds)
    ceased = replace(last, values={**last.values, "delivered_bps": 0.0})
    series = (*(each for each in sound.measurement.series if each is not last), ceased)
    assert may_be_outage(Workload(), replace(sound, measurement=replace(sound.measurement, series=series)))


def test_a_run_that_cannot_be_set_up_for_another_reason_sends_nothing_more(rig: Rig) -> None:
    error = {"kind": "setup", "step": "modify_qp RTR", "message": "m", "errno_name": "EINVAL"}
    rig.behave("right", fail={"connect": error})
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, SetupFailed)
    assert not result.of_outage
    assert rig.asked("right").count("prepare") == 1
