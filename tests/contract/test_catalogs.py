"""What drivers say, or their name tables make them say, against the catalogs: tests/data/counters/DRIVER/."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from collie.content.catalogs import discover_catalog, find_catalog, load_catalog
from collie.content.locate import ContentKind, available
from collie.counters.catalog import Catalog, CounterKind, Role, Unit
from collie.readings.samples import AgentSample, snapshot

DATA = Path(__file__).parents[1] / "data" / "counters"
DRIVERS = sorted(path.name for path in DATA.iterdir())
RECORDINGS = sorted(DATA.glob("*/*.txt"))

Values = dict[str, dict[str, int]]

load = cache(load_catalog)


def read(path: Path) -> Values:
    """Read a recording: `[source]`, then lines `name: value`; what `ethtool -S` prints has no source of its own."""
    values: Values = {}
    source = "ethtool"
    for line in path.read_text().splitlines():
        if line.startswith("[") and line.endswith("]"):
            source = line[1:-1]
        elif ":" in line and not line.startswith(("#", "NIC statistics")):
            name, _, value = line.strip().rpartition(": ")
            values.setdefault(source, {})[name] = int(value)
    return values


def of_driver(driver: str) -> Values:
    together: Values = {}
    for path in RECORDINGS:
        if path.parent.name == driver:
            for source, values in read(path).items():
                together.setdefault(source, {}).update(values)
    return together


def test_every_driver_that_ships_has_recordings() -> None:
    assert set(DRIVERS) == set(available(ContentKind.CATALOG)) - {"simulated"}
    assert set(DRIVERS) >= {"mlx5", "bnxt_re", "irdma", "efa", "erdma", "hns", "rxe"}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_recording_says_where_it_comes_from(path: Path) -> None:
    assert path.read_text().startswith(("# recorded: ", "# synthetic: from the driver"))
    assert read(path)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_nothing_that_a_driver_shows_is_left_out_without_a_reason(path: Path) -> None:
    assert load(path.parent.name).unmapped(read(path)) == ()


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_value_that_a_driver_shows_arrives_under_its_counter(path: Path) -> None:
    catalog, values = load(path.parent.name), read(path)
    taken = snapshot(AgentSample(0.0, 0.0, {}, None, values, 0), catalog).values
    for counter in catalog.counters:
        source, name = counter.key
        assert taken[counter.name] == values.get(source, {}).get(name)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_counter_that_is_not_always_there_says_when_it_is(driver: str) -> None:
    displayed = of_driver(driver)
    missing = [c for c in load(driver).counters if c.key[1] not in displayed.get(c.key[0], {})]
    assert [counter.name for counter in missing if not counter.availability] == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_each_reason_to_leave_something_out_is_needed_and_hides_no_counter(driver: str) -> None:
    catalog, displayed = load(driver), of_driver(driver)
    for rule in catalog.ignored:
        if rule.pattern == ".*":
            assert not [c for c in catalog.counters if c.source == rule.source], rule
        else:
            hidden = [counter.name for counter in catalog.counters if rule.covers(*counter.key)]
            assert hidden == [], rule
    for source, names in displayed.items():
        for name in names:
            assert sum(rule.covers(source, name) for rule in catalog.ignored) <= 1, name


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_canonical_name_means_one_counter_of_a_driver(driver: str) -> None:
    names = [counter.canonical for counter in load(driver).counters if counter.canonical]
    assert sorted(set(names)) == sorted(names)


def test_canonical_names_compare_vendors() -> None:
    shared: dict[str, set[str]] = {}
    for driver in DRIVERS:
        for counter in load(driver).counters:
            shared.setdefault(counter.canonical, set()).add(driver)
    assert shared["rx_packets"] == set(DRIVERS)
    assert shared["out_of_sequence"] >= {"mlx5", "bnxt_re", "rxe"}
    assert shared["rnr_nak_received"] >= {"mlx5", "bnxt_re", "rxe"}
    assert shared["tx_pause_us_prio3"] == {"mlx5", "bnxt_re"}
    assert shared["tx_pause_frames_prio3"] >= {"bnxt_re", "irdma", "hns"}
    assert shared["rx_discards"] >= {"mlx5", "bnxt_re", "efa"}


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_nic_has_something_that_decides_and_packets_to_compare_it_with(driver: str) -> None:
    catalog = load(driver)
    assert catalog.of_role(Role.TX_PAUSE, Role.TX_PAUSE_FRAMES, Role.DISCARD, Role.OUT_OF_SEQUENCE)
    assert len(catalog.of_role(Role.RX_PACKETS)) == 1
    assert catalog.of_kind(CounterKind.DIAGNOSTIC)


@pytest.mark.parametrize(
    ("driver", "catalog"),
    [
        ("mlx5_core", "mlx5"),
        ("bnxt_en", "bnxt_re"),
        ("ice", "irdma"),
        ("efa", "efa"),
        ("hns3", "hns"),
        ("erdma", "erdma"),
        ("rxe", "rxe"),
    ],
)
def test_a_catalog_is_found_by_the_kernel_driver_of_the_device(driver: str, catalog: str) -> None:
    found = find_catalog(driver)
    assert found is not None
    assert found.driver == catalog


def test_the_tool_and_the_files_say_the_same_of_rxe() -> None:
    (by_tool,) = json.loads((DATA / "rxe" / "rdma-statistic.json").read_text())
    by_tool = {name: value for name, value in by_tool.items() if name not in {"ifname", "port"}}
    assert by_tool == read(DATA / "rxe" / "recorded.txt")["hw_counters"]
    assert by_tool["rcvd_pkts"] > 0


def named(catalog: Catalog, values: Values) -> set[str]:
    return {counter.name for counter in catalog.counters if counter.key[1] in values.get(counter.key[0], {})}


def test_pause_counters_of_mlx5_come_with_pfc() -> None:
    catalog = load("mlx5")
    pausing = {counter.name for counter in catalog.of_role(Role.TX_PAUSE)}
    there = {path.stem: pausing & named(catalog, read(path)) for path in RECORDINGS if path.parent.name == "mlx5"}
    assert there["pfc-on-3"] == {"tx_prio3_pause_duration"}
    assert there["pfc-off"] == there["infiniband"] == set()
    assert there["global-pause"] == {"tx_global_pause_duration"}
    assert len(there["pfc-on-all"]) == 8


def test_waiting_for_credits_counts_on_infiniband_alone_and_as_time() -> None:
    catalog = load("mlx5")
    assert catalog.on_link("Ethernet", 100e9).find("port_xmit_wait") is None
    assert catalog.on_link(None, 100e9).find("port_xmit_wait") is None
    wait = catalog.on_link("InfiniBand", 200e9).find("port_xmit_wait")
    assert wait is not None
    # 200 Gbit/s is 25 bytes per ns, so a tick of 8 bytes is 0.32 ns.
    assert wait.unit is Unit.MICROSECONDS
    assert wait.scale == pytest.approx(0.32e-3)


def test_a_driver_without_a_catalog_is_taken_as_it_is() -> None:
    assert find_catalog("qedr") is None
    names = {
        "counters": ["port_xmit_data", "port_rcv_packets"],
        "hw_counters": ["requester_timeout", "rx_bytes"],
        "netdev": ["rx_bytes"],
        "ethtool": ["tx_prio3_pause_duration"],
    }
    catalog = discover_catalog("mana", names)
    assert catalog.driver == "mana"
    assert catalog.unmapped(names) == ()
    by_name = {counter.name: counter for counter in catalog.counters}
    assert set(by_name) == {
        "port_xmit_data",
        "port_rcv_packets",
        "requester_timeout",
        "rx_bytes",
        "netdev/rx_bytes",
        "tx_prio3_pause_duration",
    }
    assert by_name["port_xmit_data"].scale == 4
    assert by_name["port_rcv_packets"].role is Role.RX_PACKETS
    assert by_name["tx_prio3_pause_duration"].role is Role.TX_PAUSE
    assert by_name["netdev/rx_bytes"].key == ("netdev", "rx_bytes")
    unknown = by_name["requester_timeout"]
    assert (unknown.kind, unknown.width, unknown.component) == (CounterKind.DIAGNOSTIC, 64, "unknown")


def row(catalog: Catalog) -> str:
    """A line of the table in docs/reference/counter-catalogs.md."""

    def first(*roles: Role) -> str:
        return f"`{catalog.of_role(*roles)[0].name}`, ..." if catalog.of_role(*roles) else ""

    def every(*roles: Role) -> str:
        return ", ".join(f"`{counter.name}`" for counter in catalog.of_role(*roles))

    frames = first(Role.TX_PAUSE_FRAMES)
    cells = (
        f"`{catalog.driver}`",
        ", ".join(catalog.drivers) or catalog.driver,
        str(len(catalog.counters)),
        f"{catalog.slowest_deciding_seconds:g} s" if catalog.slowest_deciding_seconds else "at read",
        first(Role.TX_PAUSE) or (f"frames: {frames}" if frames else "nothing"),
        every(Role.DISCARD, Role.OUT_OF_SEQUENCE) or "nothing",
        every(Role.RX_PACKETS),
    )
    return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_manual_says_of_each_driver_what_its_catalog_says(driver: str) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "reference" / "counter-catalogs.md").read_text().splitlines()
    assert row(load(driver)) in manual
