"""What the agent reads of a host: from a tree of files, PCI configuration spaces and DCB answers made by hand."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from collie.agent import dcb, fingerprint, pci

BRIDGE, NIC = "0000:00:01.0", "0000:3b:00.0"


def config(*, device_control: int = 0, link_control: int = 0, acs: int | None = None) -> bytes:
    """Return 4096 bytes with the PCIe capability at 0x60, after another one, and perhaps ACS behind AER."""
    space = bytearray(4096)
    struct.pack_into("<H", space, 0x06, 0x10)
    space[0x34] = 0x40
    space[0x40:0x42] = bytes([0x01, 0x60])  # power management, next at 0x60
    space[0x60:0x62] = bytes([0x10, 0x00])
    struct.pack_into("<H", space, 0x68, device_control)
    struct.pack_into("<H", space, 0x70, link_control)
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x140 << 20)
    if acs is not None:
        struct.pack_into("<I", space, 0x140, 0x000D | 1 << 16)
        struct.pack_into("<H", space, 0x146, acs)
    return bytes(space)


def test_the_pcie_capability_gives_payload_read_request_and_ordering() -> None:
    # 256 bytes of payload (1 << 5), 4096 bytes of read request (5 << 12), relaxed ordering, extended tags
    found = pci.settings(config(device_control=1 << 5 | 5 << 12 | 1 << 4 | 1 << 8, link_control=2))
    assert found == {
        "max_payload_bytes": 256,
        "max_read_request_bytes": 4096,
        "relaxed_ordering": True,
        "extended_tags": True,
        "aspm": "L1",
    }


def test_without_root_only_the_header_is_seen_and_nothing_is_guessed() -> None:
    header = config(device_control=0xFFFF)[:64]
    assert set(pci.settings(header).values()) == {None}
    assert pci.access_control([config(acs=1), header]) is None


def test_a_damaged_capability_list_ends() -> None:
    space = bytearray(config())
    space[0x41] = 0x40  # points at itself
    assert pci.capability(bytes(space), 0x10) is None
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x100 << 20)
    assert pci.extended_capability(bytes(space), 0x000D) is None


def test_access_control_names_what_each_bridge_does() -> None:
    assert pci.access_control([config(acs=0b1_1101), config(), config(acs=0)]) == [
        "SrcValid ReqRedir CmpltRedir UpstreamFwd",
        "none",
        "off",
    ]
    assert pci.access_control([]) == []


@pytest.fixture
def tree(tmp_path: Path) -> str:
    """A host with one mlx5 NIC below one bridge."""

    def write(path: str, content: str | bytes) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())

    device = f"sys/devices/pci0000:00/{BRIDGE}/{NIC}"
    write(f"sys/devices/pci0000:00/{BRIDGE}/config", config(acs=0))
    write(f"{device}/config", config(device_control=2 << 5 | 2 << 12))
    for name, value in {
        "vendor": "0x15b3", "device": "0x101d", "subsystem_vendor": "0x15b3", "subsystem_device": "0x0053",
        "current_link_speed": "16.0 GT/s PCIe", "current_link_width": "8", "max_link_speed": "16.0 GT/s PCIe",
        "max_link_width": "16", "numa_node": "-1", "iommu_group/type": "DMA-FQ",
    }.items():  # fmt: skip
        write(f"{device}/{name}", value)
    base = "sys/class/infiniband/mlx5_0"
    for name, value in {
        "hca_type": "MT4125", "fw_ver": "22.36.1010", "board_id": "MT_0000000430", "ports/1/link_layer": "Ethernet",
        "ports/1/rate": "100 Gb/sec (2X HDR)", "tc/1/traffic_class": "Global tclass=106",
    }.items():  # fmt: skip
        write(f"{base}/{name}", value)
    (tmp_path / base / "device").symlink_to(tmp_path / device)
    write("sys/class/net/eth9/mtu", "4200")
    write("sys/class/net/eth9/speed", "100000")
    write("sys/class/net/eth9/ecn/roce_rp/enable/3", "1")
    write("sys/class/net/eth9/ecn/roce_rp/rpg_gd", "11")
    write("sys/class/net/eth9/ecn/roce_np/cnp_dscp", "48")
    for cpu, governor in enumerate(("performance", "powersave")):
        write(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", governor)
    write("sys/devices/system/cpu/intel_pstate/no_turbo", "0")
    write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512")
    write("proc/meminfo", "MemTotal:       1000 kB")
    write(
        "proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU\nmicrocode\t: 0x2b\n\nprocessor\t: 1\nmodel name\t: A CPU"
    )
    write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=UUID=1 iommu=pt intel_iommu=on quiet isolcpus=2-5")
    write("sys/module/mlx5_core/version", "23.10-1.1.9")
    write("usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0", "")
    (tmp_path / "usr/lib/x86_64-linux-gnu/libibverbs.so.1").symlink_to("libibverbs.so.1.14.44.0")
    return str(tmp_path)


def test_a_host_is_read_field_by_field(tree: str) -> None:
    found = fingerprint.take("mlx5_0", 1, "mlx5_core", "eth9", tree)
    assert found["nic"] == {
        "model": "0x15b3 0x101d 0x15b3 0x0053",
        "type": "MT4125",
        "firmware": "22.36.1010",
        "psid": "MT_0000000430",
        "driver": "mlx5_core",
        "driver_version": "23.10-1.1.9",
    }
    pcie: dict[str, Any] = found["pcie"]
    assert (pcie["address"], pcie["generation"], pcie["width"], pcie["max_width"]) == (NIC, 4, 8, 16)
    assert (pcie["max_payload_bytes"], pcie["max_read_request_bytes"]) == (512, 512)
    assert pcie["acs"] == ["off"]
    assert found["iommu"] == {"mode": "DMA-FQ"}
    assert found["numa"]["nic_node"] is None, "-1 is unknown"
    assert found["memory"] == {
        "total_bytes": 1024_000,
        "huge_pages": ["2048kB:512"],
        "transparent_huge_pages": "madvise",
    }
    cpu = found["cpu"]
    assert (cpu["model"], cpu["count"], cpu["microcode"], cpu["boost"]) == ("A CPU", 2, "0x2b", 1)
    assert cpu["governor"] == ["performance", "powersave"]
    assert found["software"]["kernel_options"] == ["intel_iommu=on", "iommu=pt", "isolcpus=2-5"]
    assert found["software"]["rdma_core"] == "44.0"
    assert found["link"]["netdev_speed_mbps"] == 100000
    assert found["congestion_control"] == {
        "traffic_class": "Global tclass=106",
        "source": "sysfs",
        "roce_np_cnp_dscp": "48",
        "roce_rp_enable_3": "1",
        "roce_rp_rpg_gd": "11",
    }


def test_a_silent_host_is_unknown_throughout(tmp_path: Path) -> None:
    found = fingerprint.take("rxe0", 1, "rxe", None, str(tmp_path))
    reported = {
        f"{category}.{name}": value
        for category, fields in found.items()
        for name, value in fields.items()
        if value is not None
    }
    # Of the interpreter, not of any file.
    assert set(reported) <= {"nic.driver", "software.kernel", "software.machine", "software.python", "software.pyverbs",
                         "software.kernel_options"}  # fmt: skip


def attribute(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(payload), kind) + payload + b"\0" * (-len(payload) % 4)


def test_a_dcb_answer_becomes_pfc_ets_buffers_and_trust() -> None:
    ets = bytes([0, 8, 0, *[12, 13, 12, 13, 12, 13, 12, 13], *[0] * 8, *[2] * 6, 0, 255, *range(8), *[0] * 24])
    pfc = struct.pack("=BBBxH", 8, 1 << 3 | 1 << 4, 0, 7) + b"\0" * 130
    buffers = struct.pack("=8B8II", *[0, 0, 0, 1, 0, 0, 0, 0], *[1000, 2000, 0, 0, 0, 0, 0, 0], 3000)
    apps = attribute(1, struct.pack("=BBH", 5, 3, 26)) + attribute(1, struct.pack("=BBH", 1, 0, 0x8915))
    nest = attribute(1, ets) + attribute(2, pfc) + attribute(3, apps) + attribute(10, buffers)
    found = dcb.parse(struct.pack("=BBH", 0, 21, 0) + attribute(1, b"eth9\0") + attribute(13 | 1 << 15, nest))
    assert found["pfc_priorities"] == [3, 4]
    assert found["pfc_delay"] == 7
    assert found["ets_bandwidth"] == [12, 13, 12, 13, 12, 13, 12, 13]
    assert found["ets_tsa"] == [*["ets"] * 6, "strict", "vendor"]
    assert found["priority_to_tc"] == list(range(8))
    assert found["priority_to_buffer"] == [0, 0, 0, 1, 0, 0, 0, 0]
    assert found["buffer_bytes"][:2] == [1000, 2000]
    assert found["dscp_to_priority"] == ["26:3"]
    assert found["trust"] == "dscp"
    reported = attribute(13, attribute(11, attribute(2, bytes([24])) + attribute(1, bytes([5]))))
    assert dcb.parse(struct.pack("=BBH", 0, 21, 0) + reported)["trust"] == "pcp dscp"


def test_a_device_without_dcb_is_unknown() -> None:
    assert set(dcb.parse(None).values()) == {None}
    assert dcb.ask("no-such-device") is None
