"""What a run of the battery read on one host: its per-second series, within the window of the run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collie.counters.catalog import Catalog, Role
from collie.detect.measurement import Measurement, Sample
from collie.fleet.battery import Probe
from collie.workloads.plan import ROLES

DELIVERED: Final = "delivered_bps"
PACKET_BYTES: Final = "payload_bytes_per_packet"
_RATIO_OF_A_COUNTER: Final = "tx_pause_ratio"


@dataclass(frozen=True, slots=True)
class Reading:
    """One host in one run.

    Attributes:
        host: its name.
        run: number of the run; partners have the same.
        partners: the other hosts of the run.
        probe: name of the probe.
        samples: by metric, one value per second of the window: `DELIVERED`, `PACKET_BYTES`, and counters by name, as
            advance per second or as level.
        window_seconds: length of the window.
    """

    host: str
    run: int
    partners: tuple[str, ...]
    probe: str
    samples: Mapping[str, tuple[float, ...]]
    window_seconds: float


def readings_of(
    measurement: Measurement, hosts: Sequence[str], probe: Probe, run: int, catalog: Catalog
) -> Iterator[Reading]:
    """Yield what the hosts under test read in a run; nothing of one that was stopped.

    What voids a verdict about a workload voids nothing here: an error counter that moved, or a host that could not
    drive the traffic, is what makes a host unlike its peers.

    Args:
        measurement: of the run.
        hosts: by role.
        probe: what ran.
        run: its number.
        catalog: describes the counters.
    """
    if measurement.stopped:
        return
    end = max((sample.seconds for sample in measurement.series), default=0.0)
    begin, window = end - measurement.window_seconds, measurement.window_seconds
    packets = next((counter.name for counter in catalog.of_role(Role.RX_PACKETS)), None)
    for role, host in zip(ROLES, hosts, strict=False):
        if role not in probe.under_test:
            continue
        own = [sample for sample in measurement.series if sample.host == role and sample.seconds > begin]
        samples = _columns(_by_second(own, begin, window))
        if packets in samples and DELIVERED in samples and all(samples[packets]):
            samples[PACKET_BYTES] = tuple(
                bps / 8.0 / count for bps, count in zip(samples[DELIVERED], samples[packets], strict=True)
            )
        partners = tuple(other for other in hosts if other != host)
        yield Reading(host, run, partners, probe.name, samples, window)


def _by_second(samples: Sequence[Sample], begin: float, window_seconds: float) -> list[list[Sample]]:
    """Sort samples into seconds: a counter that its driver refreshes once a second stands still in between."""
    count = max(1, int(window_seconds + 0.5))
    seconds: list[list[Sample]] = [[] for _ in range(count)]
    for sample in samples:
        place = (sample.seconds - begin) / window_seconds * count
        seconds[min(count - 1, max(0, math.ceil(place - 1e-9) - 1))].append(sample)  # a sample ends its period
    return [second for second in seconds if second]


def _columns(seconds: Sequence[Sequence[Sample]]) -> dict[str, tuple[float, ...]]:
    """Return each metric over the window; one that is unknown at any moment is left out, as unknown is not zero."""
    means = [second[0].values if len(second) == 1 else _means(second) for second in seconds]
    found = {}
    for name in means[0] if means else ():
        column = [values.get(name) for values in means]
        known = tuple(value for value in column if value is not None)
        if len(known) == len(column) and name != _RATIO_OF_A_COUNTER:
            found[name] = known
    return found


def _means(second: Sequence[Sample]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in second[0].values:
        column = [sample.values.get(name) for sample in second]
        known = [value for value in column if value is not None]
        found[name] = sum(known) / len(known) if len(known) == len(column) else None
    return found
