"""What the counters of an idle port say of others' traffic."""

from __future__ import annotations

import math

import pytest

from collie.content.catalogs import load_catalog
from collie.counters.catalog import Unit
from collie.hosts.idle import idle_seconds, packet_activity
from collie.readings.samples import AgentSample

DRIVERS = ["bnxt_re", "efa", "erdma", "hns", "irdma", "mlx5", "rxe"]


def idle(driver: str, sources: tuple[str, ...], packets_per_second: float) -> list[tuple[str, bool]]:
    """What is said of a port whose packet counters of some sources move; the driver refreshes them as it does."""
    catalog = load_catalog(driver)

    def reading(t: float, refresh_seconds: float) -> int:
        read = math.floor(t / refresh_seconds) * refresh_seconds if refresh_seconds else t
        return int(packets_per_second * read)

    samples = []
    for number in range(int(idle_seconds(catalog) / 0.25) + 1):
        t = 100.3 + 0.25 * number
        counters: dict[str, dict[str, int | None]] = {}
        for counter in catalog.counters:
            source, name = counter.key
            moves = counter.unit is Unit.PACKETS and source in sources
            counters.setdefault(source, {})[name] = reading(t, counter.refresh_seconds) if moves else 7
        samples.append(AgentSample(t, t, {}, None, counters, 0))
    return list(packet_activity(samples, catalog))


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_rdma_packets_of_others_forbid_to_begin(driver: str) -> None:
    found = idle(driver, ("hw_counters", "counters"), 5000.0)
    assert found
    assert all(forbids and "advances by 5,000 packets/s" in detail for detail, forbids in found)


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_the_network_device_carries_besides_forbids_nothing(driver: str) -> None:
    assert idle(driver, ("ethtool", "netdev"), 5000.0) == []
