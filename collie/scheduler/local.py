"""Pairs that this process drives itself, a thread each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from collie.campaign.lanes import Lane, alone
from collie.detect.bounds import Bound
from collie.detect.measurement import Watch
from collie.ports import OtherUse, RunResult, Testbed, TestbedInfo
from collie.workloads.pruning import Capabilities
from collie.workloads.workload import Workload


class LocalPairs:
    """A `ports.Testbed` of several that are alike; single runs, and what holds for all, are the first one's.

    Args:
        testbeds: two or more; closed with this one.
    """

    def __init__(self, testbeds: Sequence[Testbed]) -> None:
        self._testbeds = tuple(testbeds)
        self._executor = ThreadPoolExecutor(len(self._testbeds), "pair")
        infos = [testbed.info for testbed in self._testbeds]
        names = _distinct([info.name for info in infos])
        fingerprints = {host: found for info in infos for host, found in info.fingerprints.items()}
        description = {**infos[0].description, "pairs": names}
        self._info = replace(infos[0], fingerprints=fingerprints, description=description)
        self.lanes = tuple(self._lane(name, testbed) for name, testbed in zip(names, self._testbeds, strict=True))

    @property
    def info(self) -> TestbedInfo:
        """What the first is, with the hosts of all."""
        return self._info

    @property
    def capabilities(self) -> Capabilities:
        """What restricts the first."""
        return self._testbeds[0].capabilities

    def specification(self, workload: Workload) -> Bound:
        """Return what the data sheet promises."""
        return self._testbeds[0].specification(workload)

    def measure(self, workload: Workload, run: int, watch: Watch | None = None) -> RunResult:
        """Run a workload on the first."""
        return self._testbeds[0].measure(workload, run, watch)

    def other_uses(self) -> tuple[OtherUse, ...]:
        """Watch the ports of all at once."""
        return tuple(use for uses in self._executor.map(_other_uses, self._testbeds) for use in uses)

    def close(self) -> Mapping[str, int | None]:
        """Leave nothing behind on any host of any pair."""
        left = {host: count for testbed in self._testbeds for host, count in testbed.close().items()}
        self._executor.shutdown()
        return left

    def _lane(self, name: str, testbed: Testbed) -> Lane:
        if testbed.info.virtual_time:  # what takes no time needs no thread
            return Lane(name, alone(testbed).begin)

        def begin(workload: Workload, run: int, watch: Watch | None) -> Future[RunResult]:
            return self._executor.submit(testbed.measure, workload, run, watch)

        return Lane(name, begin)


def _other_uses(testbed: Testbed) -> tuple[OtherUse, ...]:
    return testbed.other_uses()


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names, numbered where they are the same."""
    if len(set(names)) == len(names):
        return list(names)
    return [f"{name}-{number}" for number, name in enumerate(names, 1)]
