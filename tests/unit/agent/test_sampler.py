"""Counters and facts from a fake sysfs, and samples from fake totals."""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collie.agent import devlink, ethtool, facts, kernel_files, report, sampler, totals
from collie.agent.engines import Engines
from collie.agent.faults import AgentFault
from collie.agent.kernel_threads import DeviceThreads
from collie.agent.report import link


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    port = tmp_path / "rxe0" / "ports" / "1"
    write(port / "state", "4: ACTIVE")
    write(port / "link_layer", "Ethernet")
    write(port / "gids" / "0", "fe80:0000:0000:0000:5054:00ff:feda:7a01")
    write(port / "gids" / "1", "0000:0000:0000:0000:0000:ffff:c0a8:4d01")
    write(port / "gids" / "2", facts.ZERO_GID)
    write(port / "gid_attrs" / "types" / "1", "RoCE v2")
    write(port / "hw_counters" / "rcvd_pkts", "17")
    write(port / "hw_counters" / "lifespan", "12")
    write(port / "hw_counters" / "broken", "N/A")
    return tmp_path


def test_a_counter_that_is_no_number_is_null_and_a_setting_is_no_counter(sysfs: Path) -> None:
    counters = sampler.SysfsCounters(str(sysfs / "rxe0" / "ports" / "1" / "hw_counters"))
    assert counters.read() == {"rcvd_pkts": 17, "broken": None}
    counters.close()


def test_a_kept_descriptor_sees_the_counter_move(sysfs: Path) -> None:
    counters = sampler.SysfsCounters(str(sysfs / "rxe0" / "ports" / "1" / "hw_counters"))
    (sysfs / "rxe0" / "ports" / "1" / "hw_counters" / "rcvd_pkts").write_text("99\n")
    assert counters.read()["rcvd_pkts"] == 99
    counters.close()


def test_a_long_file_of_the_kernel_is_read_to_its_end() -> None:
    """One read returns a page of it at most."""
    with open("/proc/self/smaps", "rb") as whole:
        lines = whole.read().count(b"KernelPageSize")
    assert lines > 50
    read = kernel_files.read_bytes("/proc/self/smaps")
    assert read is not None
    assert read.count(b"KernelPageSize") == pytest.approx(lines, abs=5)


def test_a_source_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert not sampler.SysfsCounters(str(tmp_path / "nothing"))
    reader = sampler.CounterReader("no-such-device", 1, None)
    sources = ("hw_counters", "device_hw_counters", "counters", "netdev", "ethtool", "devlink")
    assert reader.sources == dict.fromkeys(sources)
    assert reader.read() == {source: {} for source in sources}


def test_the_file_that_refreshes_all_of_mlx5_is_read_first(tmp_path: Path) -> None:
    for name in ("duplicate_request", "rx_write_requests", "out_of_buffer"):
        write(tmp_path / name, "1")
    counters = sampler.SysfsCounters(str(tmp_path))
    assert list(counters.read()) == ["rx_write_requests", "duplicate_request", "out_of_buffer"]
    counters.close()


def test_a_bond_counts_what_its_ports_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for upper, lower in (("bond0.100", "bond0"), ("bond0", "eth1"), ("bond0", "eth2")):
        (tmp_path / upper / f"lower_{lower}").mkdir(parents=True)
    statistics = {"eth1": {"tx_prio3_pause_duration": 700, "drops": 1}, "eth2": {"tx_prio3_pause_duration": 20}}
    monkeypatch.setattr(ethtool, "names", lambda port: list(statistics.get(port, ())))
    monkeypatch.setattr(ethtool, "statistics", lambda port, known: statistics.get(port))
    for netdev in ("bond0", "bond0.100"):
        counters = sampler.EthtoolCounters(netdev, str(tmp_path))
        assert counters
        assert counters.read() == {"tx_prio3_pause_duration": 720, "drops": 1}
    assert sampler.EthtoolCounters("eth2", str(tmp_path)).read() == {"tx_prio3_pause_duration": 20}
    del statistics["eth2"]
    assert counters.read() == {}


class CrowdedNetlink(sampler.NetlinkCounters):
    """RDMA netlink of a device on which root enables more and more counters."""

    def __init__(self, device: str, port: int) -> None:
        self.answers: list[dict[str, int | None] | OSError] = [OSError(errno.EMSGSIZE, "message too long"), {"few": 1}]
        self.closed = False

    def read(self) -> dict[str, int | None]:
        answer = self.answers.pop()
        if isinstance(answer, OSError):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


def test_counters_that_no_longer_fit_one_message_are_read_from_sysfs(sysfs: Path) -> None:
    directory = sysfs / "rxe0" / "ports" / "1" / "hw_counters"
    hardware = sampler.HardwareCounters("rxe0", 1, str(directory), CrowdedNetlink)
    assert (hardware.way, hardware.read()) == ("netlink", {"few": 1})
    assert hardware.read() == {"rcvd_pkts": 17, "broken": None}
    assert hardware.read()["rcvd_pkts"] == 17
    hardware.close()


def test_the_device_behind_an_rdma_device_has_a_bus_and_a_name(tmp_path: Path) -> None:
    address = tmp_path / "devices" / "0000:3b:00.0"
    (tmp_path / "bus" / "pci").mkdir(parents=True)
    address.mkdir(parents=True)
    (address / "subsystem").symlink_to(tmp_path / "bus" / "pci")
    (tmp_path / "mlx5_0").mkdir()
    (tmp_path / "mlx5_0" / "device").symlink_to(address)
    assert devlink.devlink_handle(str(tmp_path / "mlx5_0")) == ("pci", "0000:3b:00.0")
    assert devlink.devlink_handle(str(tmp_path / "rxe0")) is None


def test_a_reporter_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OSError):  # noqa: PT011  # whichever: no devlink, no device, or not allowed
        devlink.ReporterCounters("pci", "ffff:ff:1f.7", "vnic")


def test_without_netlink_the_files_are_read(sysfs: Path) -> None:
    hardware = sampler.HardwareCounters("no-such-device", 1, str(sysfs / "rxe0" / "ports" / "1" / "hw_counters"))
    assert hardware.way == "sysfs"
    assert hardware.read()["rcvd_pkts"] == 17
    hardware.close()


def test_received_packets_come_from_the_first_counter_with_a_value() -> None:
    assert sampler.received_packets({"hw_counters": {"rcvd_pkts": 5}, "counters": {"port_rcv_packets": 6}}) == 5
    assert sampler.received_packets({"hw_counters": {}, "counters": {"port_rcv_packets": 6}}) == 6
    assert sampler.received_packets({}) is None


def test_gids_have_addresses_and_types(sysfs: Path) -> None:
    port = facts.port_facts(str(sysfs / "rxe0" / "ports" / "1"))
    assert port["state"] == "ACTIVE"
    assert [(gid["index"], gid["address"], gid["type"]) for gid in port["gids"]] == [
        (0, "fe80::5054:ff:feda:7a01", None),
        (1, "192.168.77.1", "RoCE v2"),
    ]


def test_an_empty_gid_is_refused(sysfs: Path) -> None:
    assert facts.gid("rxe0", 1, 1, str(sysfs)).endswith("4d01")
    for index in (2, 9):
        with pytest.raises(AgentFault, match="no GID"):
            facts.gid("rxe0", 1, index, str(sysfs))


def test_a_software_device_has_no_numa_node_and_no_pci(sysfs: Path) -> None:
    device = facts.device_facts("rxe0", str(sysfs))
    assert (device["driver"], device["numa_node"], device["pci_address"]) == ("rxe", None, None)


def test_cpu_time_of_the_host_is_in_seconds(tmp_path: Path) -> None:
    write(tmp_path / "stat", "cpu  100 0 200 300 0 0 400 0 0 0")
    assert sampler.host_cpu(str(tmp_path / "stat"))["softirq"] == 4.0
    assert sampler.host_cpu(str(tmp_path / "gone")) == {}


def test_threads_of_a_software_device_are_counted_though_they_come_and_go(tmp_path: Path) -> None:
    hertz = os.sysconf("SC_CLK_TCK")

    def worker(pid: int, name: str, seconds: float, start: int) -> None:
        ticks = int(seconds * hertz)
        fields = ["S", "2", *["0"] * 9, str(ticks), "0", *["0"] * 6, str(start), "0"]
        write(tmp_path / str(pid) / "comm", name)
        write(tmp_path / str(pid) / "stat", f"{pid} ({name}) {' '.join(fields)}")

    children = tmp_path / "2" / "task" / "2" / "children"
    workers = DeviceThreads(str(tmp_path))
    assert workers.cpu_seconds() == {}
    worker(7, "kworker/u4:3-rxe_wq", 1.5, start=100)
    worker(8, "kworker/0:1-events", 40.0, start=100)
    worker(9, "ksoftirqd/0", 2.5, start=1)
    worker(11, "napi/eth1-8194", 3.0, start=9)
    write(children, "7 8 9 11 ")
    assert workers.cpu_seconds() == {"device_cpu_seconds": 4.5, "softirq_thread_cpu_seconds": 2.5}
    worker(7, "kworker/u4:3-events_unbound", 2.0, start=100)
    write(children, "7 8 9 10 ")  # 10 has ended before it could be read
    assert workers.cpu_seconds()["device_cpu_seconds"] == 5.0
    worker(7, "kworker/u4:5", 0.25, start=900)  # another one, with the process id of one that is gone
    assert workers.cpu_seconds() == {"device_cpu_seconds": 5.25, "softirq_thread_cpu_seconds": 2.5}


class StillEngine:
    """An engine whose totals a test sets."""

    pid = 1

    def __init__(self, ends: dict[str, int]) -> None:
        self.totals = totals.Totals(ends)
        self.wait_seconds: float | None = 0.25

    def times(self) -> dict[str, float | None]:
        return {"cpu_seconds": 1.5, "cpu_user_seconds": 0.5, "wait_seconds": self.wait_seconds}


def totals_of(run: report.Run, number: int = 0) -> totals.Totals:
    """What one engine of a run has counted."""
    return run.engines.members[number].totals


def run_of(ends: dict[str, int], plans: dict[str, Any], processes: int = 1, apart: Sequence[str] = ()) -> report.Run:
    run = report.Run(Engines(StillEngine, ends, processes, apart), "rxe0", 1, None)  # type: ignore[arg-type]
    run.plans, run.state = plans, "running"
    return run


def test_only_the_end_that_counts_says_what_was_delivered() -> None:
    plans = {
        "a-b/requester": {"counted_by": "requester_completions"},
        "b-a/responder": {"counted_by": None},
    }
    run = run_of({"a-b/requester": 2, "b-a/responder": 1}, plans)
    layout = totals_of(run).ends[0]
    words = totals_of(run).words
    words[layout.base + totals.DELIVERED_BYTES] = 500
    words[layout.first_qp], words[layout.first_qp + 1] = 3, 5
    flows = run.flows({}, 0.0)
    assert flows["a-b/requester"]["delivered_bytes"] == 500
    assert flows["a-b/requester"]["qp_messages"] == {"min": 3, "mean": 4.0, "max": 5}
    assert flows["b-a/responder"]["delivered_bytes"] is None
    assert flows["b-a/responder"]["posted_messages"] is None
    assert flows["b-a/responder"]["stalled"] is None


def test_a_flow_that_engines_share_is_the_sum_of_their_parts_and_its_spread_that_of_all_queue_pairs() -> None:
    run = run_of({"a-b/requester": 3, "victim/requester": 1}, {}, processes=2)
    for number, counts in enumerate(([3, 5], [10])):
        part = totals_of(run, number)
        layout = part.ends[0]
        assert (layout.key, layout.qps) == ("a-b/requester", len(counts))
        part.words[layout.first_qp : layout.first_qp + layout.qps] = memoryview(array("Q", counts))
        part.words[layout.base + totals.POSTED_MESSAGES] = sum(counts)
        part.words[layout.base + totals.FAILED_QPS] = number
        part.words[totals.ERRORS + 13] = 2
    assert [layout.key for layout in totals_of(run, 1).ends] == ["a-b/requester"]  # one queue pair is not shared
    flow = run.flows({}, 0.0)["a-b/requester"]
    assert (flow["posted_messages"], flow["failed_qps"]) == (18, 1)
    assert flow["qp_messages"] == {"min": 3, "mean": 6.0, "max": 10}
    health = run.health()
    assert health["errors"] == {"RNR retry exceeded": 4}
    assert (health["cpu_seconds"], health["cpu_user_seconds"], health["wait_seconds"]) == (3.0, 1.0, 0.25)


def test_the_idle_loop_of_a_victim_does_not_make_the_others_look_idle() -> None:
    run = run_of({"a-b/requester": 2, "victim/requester": 1}, {}, processes=2, apart=["victim/requester"])
    for number in range(3):
        part = totals_of(run, number)
        part.words[totals.ITERATIONS] = 10
        part.words[totals.IDLE_POLLS] = 9 * (number == 2)
        part.words[totals.POST_ERRORS] = 1
    health = run.health()
    assert (health["iterations"], health["idle_polls"]) == (20, 0)
    assert (health["post_errors"], health["cpu_seconds"]) == (3, 4.5)


@pytest.mark.parametrize(
    ("waits", "longest"), [((0.4, 0.2, 0.1), 0.3), ((0.1, 0.1, 0.5), 0.5), ((0.1, None, 0.5), None)]
)
def test_the_wait_for_a_cpu_is_that_of_the_victim_if_it_waits_longer(
    waits: tuple[float | None, ...], longest: float | None
) -> None:
    run = run_of({"a-b/requester": 2, "victim/requester": 1}, {}, processes=2, apart=["victim/requester"])
    for member, wait in zip(run.engines.members, waits, strict=True):
        member.wait_seconds = wait  # type: ignore[attr-defined]
    found = run.health()["wait_seconds"]
    assert found == (longest if longest is None else pytest.approx(longest))


def test_times_of_a_flow_are_those_of_all_engines() -> None:
    run = run_of({"a-b/requester": 2, "b-a/responder": 1}, {"a-b/requester": {"timed": True}}, processes=2)
    for number in (0, 1):
        part = totals_of(run, number)
        base = part.ends[0].base
        part.words[base + totals.LATENCIES + 20] = 3
        part.words[base + totals.LATENCIES + 511] = number
        part.words[base + totals.GAPS] = 1
        part.words[base + totals.ROUNDS_OUT] = 1 - number
        part.words[base + totals.PROGRESS_AT] = 2_000_000_000 - 1_000_000_000 * number
    flow = run.flows({}, 5.0)["a-b/requester"]
    assert flow["latencies"] == [[20, 6], [31 << 30, 1]]
    assert flow["gaps"] == [[0, 2]]
    assert flow["latency_clock"] == "host"
    assert flow["open_gap"] == 3_000_000_000, "nothing is outstanding in the engine that stood still for longer"
    assert run.flows({}, 1.0)["a-b/requester"]["open_gap"] == 0
    other = run.flows({}, 5.0)["b-a/responder"]
    assert [other[name] for name in report.TIMES] == [None] * len(report.TIMES)


def test_a_phase_counts_only_the_queue_pairs_that_it_uses() -> None:
    run = run_of({"a-b/requester": 4, "b-a/requester": 2}, {}, processes=2)
    for number in (0, 1):
        part = totals_of(run, number)
        part.words[part.ends[0].first_qp] = 10
        part.words[part.ends[0].first_qp + 1] = 90
    run.engines.totals.use([{"a-b/requester": 1}, {"a-b/requester": 1}])
    assert list(run.flows({}, 0.0)) == ["a-b/requester"]
    assert run.engines.totals.qps == {"a-b/requester": 2}
    assert run.flows({}, 0.0)["a-b/requester"]["qp_messages"] == {"min": 10, "mean": 10.0, "max": 10}


def test_totals_begin_anew_with_a_phase_and_a_waiting_command_still_waits() -> None:
    part = totals.Totals({"a-b/requester": 2})
    part.words[:] = memoryview(array("Q", [7] * len(part.words)))
    part.restart()
    assert part.words[totals.ATTENTION] == 7
    assert sum(part.words) == 7


def test_a_flow_that_stood_still_in_one_phase_is_not_stalled_in_the_next() -> None:
    plans = {"a-b/requester": {"counted_by": "requester_completions"}}
    run = run_of({"a-b/requester": 1}, plans)
    run.flows({}, 10.0)
    assert run.flows({}, 11.1)["a-b/requester"]["stalled"] is True
    run.enter_phase(plans)
    assert run.flows({}, 20.0)["a-b/requester"]["stalled"] is False


def test_uc_write_is_counted_in_packets_and_shared_by_queue_pairs() -> None:
    plan = {"counted_by": "responder_packets", "payload_per_packet": 1000.0, "messages_per_packet": 0.5}
    run = run_of({"a-b/responder": 3, "b-b/responder": 1}, {"a-b/responder": plan, "b-b/responder": plan})
    run.first_packets = 100
    flows = run.flows({"hw_counters": {"rcvd_pkts": 500}}, 0.0)
    assert flows["a-b/responder"]["delivered_bytes"] == 300_000
    assert flows["b-b/responder"]["delivered_messages"] == 50
    assert run.flows({}, 0.0)["a-b/responder"]["delivered_bytes"] is None


def test_a_flow_is_stalled_when_nothing_completed_for_a_second() -> None:
    run = run_of({"a-b/requester": 1}, {"a-b/requester": {"counted_by": "requester_completions"}})
    assert run.flows({}, 10.0)["a-b/requester"]["stalled"] is False
    assert run.flows({}, 10.9)["a-b/requester"]["stalled"] is False
    assert run.flows({}, 11.1)["a-b/requester"]["stalled"] is True
    totals_of(run).words[totals_of(run).ends[0].base + totals.COMPLETED_MESSAGES] = 1
    assert run.flows({}, 11.2)["a-b/requester"]["stalled"] is False


def test_errors_are_named_in_words() -> None:
    run = run_of({"a-b/requester": 1}, {})
    totals_of(run).words[totals.ERRORS + 13] = 2
    assert run.health()["errors"] == {"RNR retry exceeded": 2}
    assert run.health()["cpu_seconds"] == 1.5


def test_time_on_the_run_queue_is_summed_over_threads(tmp_path: Path) -> None:
    for thread, line in (("7", "900 250000000 3"), ("8", "0 500000000 1")):
        folder = tmp_path / "7" / "task" / thread
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(line + "\n")
    assert sampler.waited(7, str(tmp_path)) == 0.75
    assert sampler.waited(9, str(tmp_path)) is None
    (tmp_path / "7" / "task" / "8" / "schedstat").write_text("")
    assert sampler.waited(7, str(tmp_path)) is None


def test_an_unreported_link_is_null_and_not_down() -> None:
    reported = link("no-such-device", 1, None)
    assert set(reported.values()) == {None}
    assert link("no-such-device", 1, "lo")["netdev_state"] is not None


def test_counters_of_a_vlan_are_those_of_the_port_below(tmp_path: Path) -> None:
    (tmp_path / "eth1.100" / "lower_eth1").mkdir(parents=True)
    (tmp_path / "eth1").mkdir()
    (tmp_path / "bond0" / "lower_eth1").mkdir(parents=True)
    (tmp_path / "bond0" / "lower_eth2").mkdir()
    assert [facts.physical_netdev(name, str(tmp_path)) for name in ("eth1.100", "eth1", "bond0")] == [
        "eth1",
        "eth1",
        "bond0",
    ]
