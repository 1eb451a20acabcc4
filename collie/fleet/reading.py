"""Per-second series of one host in a run of the battery."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import Final

from collie.detect.measurement import Measurement, Sample
from collie.fleet.battery import Probe
from collie.workloads.plan import ROLES
from collie.workloads.workload import Workload

DELIVERED: Final = "delivered_bps"
PATH_MTU: Final = "path_mtu"
_RATIO_OF_A_COUNTER: Final = "tx_pause_ratio"


@dataclass(frozen=True, slots=True)
class HostReading:
    """One host in one run.

    Attributes:
        partners: the other hosts of the run.
        samples: by metric, one value per second: `DELIVERED`, `PATH_MTU` (bytes, as agreed), and counters as advance or
            level.
    """

    host: str
    run: int
    partners: tuple[str, ...]
    probe: str
    samples: Mapping[str, tuple[float, ...]]
    window_seconds: float


def readings_of(
    measurement: Measurement, workload: Workload, hosts: Sequence[str], probe: Probe, run: int
) -> Iterator[HostReading]:
    """Yield the readings of the hosts under test that have samples. A stopped run has none.

    Runs with void verdicts are kept, because their problems distinguish a host from its peers. `hosts` are by role.
    """
    if measurement.stopped or not measurement.series:
        return
    last = {sample.host: sample.seconds for sample in measurement.series}
    # the window ends with the host that stops first
    end, window = min(last.values()), measurement.window_seconds
    begin = end - window
    for role, host in zip(ROLES, hosts, strict=False):
        if role not in probe.under_test:
            continue
        own = [sample for sample in measurement.series if sample.host == role and begin < sample.seconds <= end]
        if not own:
            continue
        seconds = _by_second(own, begin, window)
        samples = {**_columns(seconds), PATH_MTU: (float(workload.mtu),) * len(seconds)}
        partners = tuple(other for other in hosts if other != host)
        yield HostReading(host, run, partners, probe.name, samples, window)


def _by_second(samples: Sequence[Sample], begin: float, window_seconds: float) -> list[list[Sample]]:
    count = max(1, int(window_seconds + 0.5))
    seconds: list[list[Sample]] = [[] for _ in range(count)]
    for sample in samples:
        place = (sample.seconds - begin) / window_seconds * count
        seconds[min(count - 1, max(0, math.ceil(place - 1e-9) - 1))].append(sample)  # a sample ends its period
    return [second for second in seconds if second]


def _columns(seconds: Sequence[Sequence[Sample]]) -> dict[str, tuple[float, ...]]:
    """Return each metric from its first known value. Metrics with later gaps are left out: unknown is not zero."""
    means = [_means(second) for second in seconds]
    found = {}
    for name in means[0] if means else ():
        column = list(dropwhile(lambda value: value is None, (values.get(name) for values in means)))
        known = tuple(value for value in column if value is not None)
        if known and len(known) == len(column) and name != _RATIO_OF_A_COUNTER:
            found[name] = known
    return found


def _means(second: Sequence[Sample]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in second[0].values:
        known = [value for sample in second if (value := sample.values.get(name)) is not None]
        found[name] = sum(known) / len(known) if known else None
    return found
