"""Checks one host for missing requirements, and names the commands that add them. It changes nothing itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collie.counters.catalog import Role
from collie.errors import HostKeyMismatch, HostUnreachable, TestbedError
from collie.hosts.catalogs import CatalogFor, first_samples
from collie.hosts.findings import CheckState, Finding
from collie.hosts.fingerprint import fingerprint
from collie.hosts.host_info import DeviceInfo, HostInfo, PortInfo, matching_gid, rdma_port
from collie.hosts.session import ASK_VERSION, HostSession, last_line, python_problem, python_version
from collie.inventory.fingerprint import Fingerprint
from collie.readings.samples import names_in, present
from collie.untrusted import sanitized, whole_number

_MAX_CLOCK_DRIFT = 0.02
"""A clock 2 % fast makes its host's rates 2 % low. Verdicts tolerate 20 %."""
_MAX_MTU = 4096
_MIN_LOCKED_KIB = 1 << 20
"""1 GiB: more than the largest workloads of the shipped spaces register."""
_MAX_CHARACTERS = 80

_INSTALL = {"debian": "apt-get install {}", "rhel": "dnf install {}", "suse": "zypper install {}"}
_FAMILIES = {"debian": "debian ubuntu", "rhel": "rhel fedora centos rocky almalinux", "suse": "suse opensuse sles"}

_ACROSS_PORTS = {"accept_local": (1,), "rp_filter": (2, 0), "arp_ignore": (1, 2), "arp_announce": (2, 1)}
"""Kernel settings of a network device, with the values that let another port of the host reach it, best first."""


class HostCheck:
    """The check of one host, by a shell and then by the agent. Only a host that lacks nothing has a fingerprint."""

    def __init__(self, session: HostSession, catalog_for: CatalogFor | None, *, across_ports: bool) -> None:
        self.host = session.host
        self.session = session
        self.answered = False
        self.fingerprint: Fingerprint | None = None
        self._across_ports = across_ports
        self._catalog_for = catalog_for
        self._install = _INSTALL["debian"]

    def findings(self) -> list[Finding]:
        """Check the host. A failure is reported as a finding."""
        found: list[Finding] = []
        try:
            found += self._shell()
            if not _is_any_missing(found):
                found += self._agent()
            if not _is_any_missing(found):
                self.fingerprint = fingerprint(self.session)
        except HostKeyMismatch as error:
            command = f"here: ssh-keyscan {self._port_option()}{self.host.address}"
            found.append(self._missing("ssh", str(error), command))
        except HostUnreachable as error:
            user = f"{self.host.user}@" if self.host.user else ""
            key = f"-i {self.host.identity_file} " if self.host.identity_file else ""
            command = f"here: ssh -v {key}{self._port_option()}{user}{self.host.address} true"
            found.append(self._missing("ssh", str(error), command))
        except TestbedError as error:
            found.append(self._missing("agent", str(error), f"{self.host.python} --version; uptime; df -h ~"))
        return found

    def _shell(self) -> Iterator[Finding]:
        release = self._run("cat", "/etc/os-release").lower()
        family = next((f for f, words in _FAMILIES.items() if any(w in release for w in words.split())), "debian")
        self._install = _INSTALL[family]
        yield self._ok("ssh", f"{self.host.address} answers, its host key is known")
        yield self._python()
        yield self._memlock()
        if self._run("sh", "-c", "command -v ib_write_bw"):
            yield self._ok("perftest", "installed")
        else:
            command = self._install.format("perftest")
            yield self._advice("perftest", "not installed; only comparisons need it", command)

    def _python(self) -> Finding:
        version = python_version(self._run(self.host.python, *ASK_VERSION))
        if version is None:
            detail = f"{self.host.python} is no Python interpreter; install one, or name another in the hosts file"
            return self._missing("python", detail, self._install.format("python3"))
        if problem := python_problem(self.host.python, version):
            return self._missing("python", problem, self._install.format("python3.9"))
        return self._ok("python", f"{self.host.python} is Python {version[0]}.{version[1]}")

    def _memlock(self) -> Finding:
        limit = sanitized(last_line(self._run("sh", "-c", "ulimit -l"))[:_MAX_CHARACTERS])
        if limit == "unlimited" or last_line(self._run("id", "-u")) == "0":
            return self._ok("locked memory", limit or "root has no limit")
        command = "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/rdma.conf   # then log in again"
        detail = f"limited to {limit or 'an unknown number of'} KiB; buffers of RDMA are locked memory"
        finding = self._advice if (whole_number(limit) or 0) >= _MIN_LOCKED_KIB else self._missing
        return finding("locked memory", detail, command)

    def _agent(self) -> Iterator[Finding]:
        info = self.session.info
        self.answered = True
        yield self._ok("agent", f"starts on Python {info.python}, kernel {info.kernel}")
        yield self._data_path(info)
        yield from self._device(info)
        if self._catalog_for is not None:
            yield from self._counters(self._catalog_for)
        yield self._clock_rate()

    def _data_path(self, info: HostInfo) -> Finding:
        wanted = self.host.data_path
        chosen = info.data_path(wanted)
        others = "; ".join(
            f"{path.name} cannot be used: {path.detail}" for path in info.data_paths.values() if not path.usable
        )
        if chosen is None:
            packages = {"native": "libibverbs1", "pyverbs": "python3-pyverbs", None: "libibverbs1 python3-pyverbs"}
            forced = f"the hosts file says {wanted}; " if wanted else ""
            return self._missing("data path", forced + others, self._install.format(packages[wanted]))
        detail = f"{chosen.name} ({chosen.detail})" + (", as the hosts file says" if wanted else "")
        if chosen is info.data_path(None) and chosen.name != "native":
            advice = f"{detail}: small messages are bound by the CPU; {others}"
            return self._advice("data path", advice, self._install.format("gcc libc6-dev"))
        return self._ok("data path", detail)

    def _device(self, info: HostInfo) -> Iterator[Finding]:
        device = info.device(self.host.device)
        if device is None:
            there = ", ".join(known.name for known in info.devices) or "none"
            detail = f"there is no {self.host.device}; RDMA devices: {there}"
            yield self._missing("device", detail, self._device_command())
            return
        if device.open_error:
            detail = f"{device.name} cannot be opened: {device.open_error}"
            yield self._missing("device", detail, "ls -l /dev/infiniband; modprobe ib_uverbs")
        else:
            yield self._ok("device", f"{device.name}, driver {device.driver or 'unknown'}")
        port = device.port(self.host.ib_port)
        if port is None:
            detail = f"{device.name} has no port {self.host.ib_port}; change ib_port in the hosts file"
            yield self._missing("port", detail, f"rdma link show | grep {device.name}")
            return
        yield from self._port(device, port)

    def _device_command(self) -> str:
        if self.host.device.startswith("rxe"):
            find = f"$(ip -o addr show to {self.host.data_address} | awk '{{print $2}}')"
            return f"modprobe rdma_rxe && rdma link add {self.host.device} type rxe netdev {find}"
        return "rdma link show   # then name one of these devices in the hosts file"

    def _port(self, device: DeviceInfo, port: PortInfo) -> Iterator[Finding]:
        netdev = port.netdev or "NETDEV"
        if port.state == "ACTIVE":
            yield self._ok("port", f"{device.name}/{port.number} is ACTIVE")
        else:
            detail = f"{device.name}/{port.number} is {port.state}, not ACTIVE"
            yield self._missing("port", detail, f"ip link set {netdev} up")
        yield self._gid(device, port, netdev)
        if port.active_mtu is None or port.active_mtu >= _MAX_MTU:
            yield self._ok("mtu", f"{port.active_mtu or 'unknown'}")
        else:
            detail = f"{port.active_mtu}; workloads with a larger MTU will be unsupported"
            # 4096 bytes of payload, headers of IPv6, UDP and BTH, and the longest extension, rounded up.
            yield self._advice("mtu", detail, f"ip link set {netdev} mtu 4200")
        gid = matching_gid(port, self.host.data_address)
        if self._across_ports and gid is not None and ":" not in self.host.data_address:
            yield from self._other_ports(gid.netdev or netdev)

    def _other_ports(self, netdev: str) -> Iterator[Finding]:
        """Check whether the kernel lets the host's other ports reach this one.

        By default the kernel drops packets from its own addresses. Ports in one segment answer and ask for each other.
        """
        found = {rule: self._kernel_setting(rule, netdev) for rule in _ACROSS_PORTS}
        if None in found.values():
            return
        wrong = [rule for rule, value in found.items() if value not in _ACROSS_PORTS[rule]]
        if not wrong:
            yield self._ok("other ports", f"{netdev} accepts packets from other ports of {self.host.machine}")
            return
        values = ", ".join(f"{rule} is {found[rule]}" for rule in wrong)
        detail = f"{netdev} may drop packets from other ports of {self.host.machine}: {values}"
        settings = " ".join(f"net.ipv4.conf.{netdev}.{rule}={_ACROSS_PORTS[rule][0]}" for rule in wrong)
        yield self._advice("other ports", detail, f"sysctl -w {settings}")

    def _kernel_setting(self, rule: str, netdev: str) -> int | None:
        """Return the effective value: the larger of the network device's value and the value for all devices."""
        words = self._run("cat", *(f"/proc/sys/net/ipv4/conf/{each}/{rule}" for each in ("all", netdev))).split()
        found = [number for number in map(whole_number, words) if number is not None]
        return max(found) if len(words) == len(found) == 2 else None

    def _gid(self, device: DeviceInfo, port: PortInfo, netdev: str) -> Finding:
        matching = matching_gid(port, self.host.data_address)
        chosen, there = self.host.gid_index, {gid.index for gid in port.gids}
        right = f"in the hosts file: gid_index: {matching.index if matching else min(there, default=0)}"
        if chosen is not None and chosen not in there:
            return self._missing("gid", f"there is no GID at index {chosen}", right)
        if matching is None:
            return self._no_gid(device, port, f"ip address add {self.host.data_address}/24 dev {netdev}", right)
        if chosen is None or chosen == matching.index:
            return self._ok("gid", f"index {matching.index} is the RoCE v2 GID of {self.host.data_address}")
        detail = f"index {chosen}, as the hosts file says; that of {self.host.data_address} is {matching.index}"
        return self._advice("gid", detail, right)

    def _no_gid(self, device: DeviceInfo, port: PortInfo, add: str, choose: str) -> Finding:
        """Report that no GID holds the data address, which is normal on InfiniBand."""
        chosen, infiniband = self.host.gid_index, port.link_layer == "InfiniBand"
        if chosen is None and infiniband:
            detail = "GIDs of InfiniBand hold no data_address; the hosts file has to name one"
            return self._missing("gid", detail, choose)
        if chosen is None:
            detail = f"{device.name}/{port.number} has no RoCE v2 GID for data_address {self.host.data_address}"
            return self._missing("gid", detail, add)
        detail = f"index {chosen}, as the hosts file says"
        if infiniband:
            return self._ok("gid", detail)
        return self._advice("gid", f"{detail}; no GID holds data_address {self.host.data_address}", add)

    def _counters(self, catalog_for: CatalogFor) -> Iterator[Finding]:
        try:
            port = rdma_port(self.host, self.session.info)
        except TestbedError:
            return  # reported above
        names = names_in(first_samples(self.session, port))
        catalog = catalog_for(port.driver)
        if catalog is None:
            found = sum(map(len, names.values()))
            detail = f"driver {port.driver} has no catalog; its {found} counters keep the driver's names"
            yield self._advice("counters", detail, "here: see docs/explanation/counters.md")
            return
        exposed = present(catalog, names)
        unknown = catalog.unmapped(names)
        detail = f"{len(exposed.counters)} of {len(catalog.counters)} of catalog {catalog.driver}"
        if unknown:
            detail += f"; {len(unknown)} unknown, such as {unknown[0][1]}"
        yield self._ok("counters", detail)
        can_pause = port.link_layer == "Ethernet" and catalog.of_role(Role.TX_PAUSE)
        if can_pause and not exposed.of_role(Role.TX_PAUSE):
            detail = "PFC is off on every priority: anomalies show as loss instead of pause"
            command = f"dcb pfc set dev {port.netdev} prio-pfc 3:on   # the priority that your network is lossless on"
            yield self._advice("flow control", detail, command)

    def _clock_rate(self) -> Finding:
        begin, first_request, first_answer = self._host_clock()
        self.session.clock.sleep(self.session.timing.clock_seconds)
        end, last_request, last_answer = self._host_clock()
        # The host read its clock between request and answer, so only a deviation beyond this interval is drift.
        elapsed = end - begin
        slowest = elapsed / (last_answer - first_request)
        fastest = elapsed / max(1e-9, last_request - first_answer)
        drift = min(0.0, fastest - 1) + max(0.0, slowest - 1)
        if abs(drift) <= _MAX_CLOCK_DRIFT:
            return self._ok("clock", "runs as fast as this machine's")
        detail = f"runs {abs(drift):.1%} {'faster' if drift > 0 else 'slower'} than this machine's"
        command = "cat /sys/devices/system/clocksource/clocksource0/current_clocksource; uptime"
        return self._advice("clock", detail, command)

    def _host_clock(self) -> tuple[float, float, float]:
        """Return the host's clock, and the controller's at request and answer."""
        requested = self.session.clock.monotonic()
        clock = float(self.session.request("ping")["clock"])
        return clock, requested, self.session.clock.monotonic()

    def _run(self, *argv: str) -> str:
        done = self.session.run(argv)
        return done.stdout if done.status == 0 else ""

    def _port_option(self) -> str:
        return f"-p {self.host.port} " if self.host.port else ""

    def _ok(self, item: str, detail: str) -> Finding:
        return Finding(self.host.name, item, CheckState.OK, detail)

    def _advice(self, item: str, detail: str, command: str) -> Finding:
        return Finding(self.host.name, item, CheckState.ADVICE, detail, command)

    def _missing(self, item: str, detail: str, command: str) -> Finding:
        return Finding(self.host.name, item, CheckState.MISSING, detail, command)


def _is_any_missing(findings: Iterable[Finding]) -> bool:
    return any(finding.state is CheckState.MISSING for finding in findings)
