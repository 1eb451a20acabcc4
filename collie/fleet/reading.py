"""What a run of the battery read on one host: its per-second series, within the window of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collie.counters.catalog import Catalog, Role
from collie.detect.measurement import Measurement
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
        samples: by metric, one value per second, or as often as counters are read: `DELIVERED`, `PACKET_BYTES`, and
            counters by name, as advance per second or as level.
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
    """Yield what the hosts under test read in a run; nothing of a run that proves nothing.

    Args:
        measurement: of the run.
        hosts: by role.
        probe: what ran.
        run: its number.
        catalog: describes the counters.
    """
    if not measurement.stable or measurement.stopped or measurement.problems or not measurement.health.driven:
        return
    end = max((sample.seconds for sample in measurement.series), default=0.0)
    packets = next((counter.name for counter in catalog.of_role(Role.RX_PACKETS)), None)
    for role, host in zip(ROLES, hosts, strict=False):
        if role not in probe.under_test:
            continue
        window = [
            sample.values
            for sample in measurement.series
            if sample.host == role and sample.seconds > end - measurement.window_seconds
        ]
        samples = _columns(window)
        if packets in samples and DELIVERED in samples and all(samples[packets]):
            samples[PACKET_BYTES] = tuple(
                bps / 8.0 / count for bps, count in zip(samples[DELIVERED], samples[packets], strict=True)
            )
        partners = tuple(other for other in hosts if other != host)
        yield Reading(host, run, partners, probe.name, samples, measurement.window_seconds)


def _columns(window: Sequence[Mapping[str, float | None]]) -> dict[str, tuple[float, ...]]:
    """Return each metric over the window; one that is unknown at any moment is left out, as unknown is not zero."""
    found = {}
    for name in window[0] if window else ():
        column = [values.get(name) for values in window]
        known = tuple(value for value in column if value is not None)
        if len(known) == len(column) and name != _RATIO_OF_A_COUNTER:
            found[name] = known
    return found
