"""Pairs driven by threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TypeVar

from collie.campaign.lanes import Lane, at_once
from collie.detect.bounds import Bound
from collie.detect.measurement import Watch
from collie.errors import TestbedError
from collie.ports import ForeignUse, PairLost, RunResult, Testbed, TestbedInfo
from collie.workloads.pruning import Capabilities
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

T = TypeVar("T")


class LocalPairs:
    """A `ports.Testbed` of two or more equal testbeds. Single runs and common properties use the first that answers.

    Args:
        testbeds: by name. They are closed with this testbed.
        absent_ok: lose a silent testbed with its first run, as long as another one answers.
        takes_time: measuring takes real time, even with virtual time in the testbeds.
    """

    def __init__(self, testbeds: Mapping[str, Testbed], *, absent_ok: bool = False, takes_time: bool = False) -> None:
        self._takes_time = takes_time
        self._testbeds = dict(testbeds)
        self._executor = ThreadPoolExecutor(len(self._testbeds), "pair")
        try:
            asked = self._executor.map(_info, self._testbeds.values())
            infos = dict(zip(self._testbeds, asked, strict=True))
            errors = {name: info for name, info in infos.items() if isinstance(info, TestbedError)}
            found = [info for info in infos.values() if not isinstance(info, TestbedError)]
            if errors and not (absent_ok and found):
                raise next(iter(errors.values()))
        except BaseException:
            with suppress(TestbedError):  # the other testbeds have running agents
                self.close()
            raise
        self.absent = {name: str(error) for name, error in errors.items()}
        fingerprints = {host: each for info in found for host, each in info.fingerprints.items()}
        description = {**found[0].description, "pairs": list(self._testbeds)}
        self.info = replace(found[0], fingerprints=fingerprints, description=description)
        self.lanes = tuple(self._lane(name, testbed) for name, testbed in self._testbeds.items())

    @property
    def capabilities(self) -> Capabilities:
        """Restrictions of the first testbed."""
        return self._first(lambda testbed: testbed.capabilities)

    def specification(self, workload: Workload) -> Bound:
        """Return the data sheet's bound."""
        return self._first(lambda testbed: testbed.specification(workload))

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        """Run a workload on the first testbed."""
        return self._first(lambda testbed: testbed.measure(workload, run, watch, on))

    def foreign_uses(self) -> tuple[ForeignUse, ...]:
        """Watch the ports of all testbeds at once."""
        present = [testbed for name, testbed in self._testbeds.items() if name not in self.absent]
        found = self._executor.map(lambda testbed: testbed.foreign_uses(), present)
        return tuple(use for uses in found for use in uses)

    def close(self) -> Mapping[str, int | None]:
        """Close every pair, even if closing another one fails. Raises the first failure."""
        # These threads are new, because those of the executor may run until their testbed is closed.
        with ThreadPoolExecutor(len(self._testbeds), "close") as closing:
            closed = [closing.submit(testbed.close) for testbed in self._testbeds.values()]
        self._executor.shutdown()
        return {host: count for each in closed for host, count in each.result().items()}

    def _first(self, ask: Callable[[Testbed], T]) -> T:
        for name, testbed in self._testbeds.items():
            if name not in self.absent:
                try:
                    return ask(testbed)
                except TestbedError as error:
                    self.absent[name] = str(error)
        raise TestbedError("; ".join(f"{name}: {reason}" for name, reason in self.absent.items()))

    def _lane(self, name: str, testbed: Testbed) -> Lane:
        if name in self.absent:
            lost = PairLost(name, self.absent[name], 0.0)
            return Lane(name, partial(at_once, lambda *_asked: lost))
        virtual_time = testbed.info.virtual_time

        def run(workload: Workload, run: int, watch: Watch | None, on: SetUp | None) -> RunResult:
            began = monotonic()
            try:
                return testbed.measure(workload, run, watch, on)
            except TestbedError as error:
                self.absent[name] = str(error)
                return PairLost(name, str(error), 0.0 if virtual_time else monotonic() - began)

        if virtual_time and not self._takes_time:
            return Lane(name, partial(at_once, run))
        return Lane(name, lambda *asked: self._executor.submit(run, *asked))


def _info(testbed: Testbed) -> TestbedInfo | TestbedError:
    try:
        return testbed.info
    except TestbedError as error:
        return error
