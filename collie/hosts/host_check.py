"""The check of one host: what it lacks to measure, and the command that adds it. Changes nothing itself."""

from __future__ import annotations

from collections.abc import Iterator

from collie.counters.catalog import Role
from collie.errors import HostKeyMismatch, HostUnreachable, TestbedError
from collie.hosts.catalogs import CatalogFor, exposed_names
from collie.hosts.facts import DeviceFacts, HostFacts, PortFacts, matching_gid, rdma_port
from collie.hosts.findings import CheckState, Finding
from collie.hosts.fingerprint import fingerprint
from collie.hosts.session import ASK_VERSION, OLDEST_PYTHON, Archive, HostSession, last_line, python_version
from collie.hosts.timing import DEFAULT_TIMING, HostTiming
from collie.inventory.fingerprint import Fingerprint
from collie.inventory.hosts import Host
from collie.ports import Clock, Remote
from collie.untrusted import sanitized, whole_number

COMMAND_SECONDS = 20.0

MAX_CLOCK_DRIFT = 0.02
"""Rates use a host's clock, so a clock 2 % fast makes its host 2 % slow. Verdicts tolerate 20 %."""
LARGEST_MTU = 4096
ENOUGH_LOCKED_KIB = 1 << 20
"""1 GiB: more than the largest workloads of the shipped spaces register."""
_MAX_CHARACTERS = 80

_INSTALL = {"debian": "apt-get install {}", "rhel": "dnf install {}", "suse": "zypper install {}"}
_FAMILIES = {"debian": "debian ubuntu", "rhel": "rhel fedora centos rocky almalinux", "suse": "suse opensuse sles"}

_ACROSS_PORTS = {"accept_local": (1,), "rp_filter": (2, 0), "arp_ignore": (1, 2)}
"""Kernel settings of a network device that let another port of the host reach it, best first."""


class HostCheck:
    """The check of one host: by a shell, then by the agent.

    Attributes:
        answered: an agent started there.
        fingerprint: of a host that lacks nothing.
    """

    def __init__(
        self,
        host: Host,
        remote: Remote,
        archive: Archive,
        clock: Clock,
        catalog_for: CatalogFor | None,
        *,
        across_ports: bool,
        timing: HostTiming = DEFAULT_TIMING,
    ) -> None:
        self._across_ports = across_ports
        self._catalog_for = catalog_for
        self.host = host
        self.answered = False
        self.fingerprint: Fingerprint | None = None
        self._remote = remote
        self.session = HostSession(host, remote, archive, clock, timing)
        self._clock = clock
        self._install = _INSTALL["debian"]

    def findings(self) -> list[Finding]:
        """Check the host. A failure is a finding, never an exception."""
        found: list[Finding] = []
        try:
            found += self._shell()
            if all(finding.state is not CheckState.MISSING for finding in found):
                found += self._agent()
            if all(finding.state is not CheckState.MISSING for finding in found):
                self.fingerprint = fingerprint(self.session)
        except HostKeyMismatch as error:
            found.append(
                self._missing("ssh", str(error), f"here: ssh-keyscan {self._port_option()}{self.host.address}")
            )
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
            yield Finding(
                self.host.name, "perftest", CheckState.ADVICE, "not installed; only comparisons need it", command
            )

    def _python(self) -> Finding:
        version = python_version(self._run(self.host.python, *ASK_VERSION))
        if version is None:
            detail = f"{self.host.python} is no Python interpreter; install one, or name another in the hosts file"
            return self._missing("python", detail, self._install.format("python3"))
        said = f"{self.host.python} is Python {'.'.join(map(str, version))}"
        if version < OLDEST_PYTHON:
            return self._missing("python", f"{said}; the agent needs 3.9 or newer", self._install.format("python3.9"))
        return self._ok("python", said)

    def _memlock(self) -> Finding:
        limit = sanitized(last_line(self._run("sh", "-c", "ulimit -l"))[:_MAX_CHARACTERS])
        if limit == "unlimited" or last_line(self._run("id", "-u")) == "0":
            return self._ok("locked memory", limit or "root has no limit")
        command = "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/rdma.conf   # then log in again"
        enough = (whole_number(limit) or 0) >= ENOUGH_LOCKED_KIB
        detail = f"limited to {limit or 'an unknown number of'} KiB; buffers of RDMA are locked memory"
        return Finding(
            self.host.name, "locked memory", CheckState.ADVICE if enough else CheckState.MISSING, detail, command
        )

    def _agent(self) -> Iterator[Finding]:
        facts = self.session.facts
        self.answered = True
        yield self._ok("agent", f"starts on Python {facts.python}, kernel {facts.kernel}")
        yield self._data_path(facts)
        yield from self._device(facts)
        if self._catalog_for is not None:
            yield from self._counters(self._catalog_for)
        yield self._clock_rate()

    def _data_path(self, facts: HostFacts) -> Finding:
        wanted = self.host.data_path
        chosen = facts.data_path(wanted)
        others = "; ".join(f"{path.name} cannot be used: {path.detail}" for path in facts.data_paths if not path.usable)
        if chosen is None:
            packages = {"native": "libibverbs1", "pyverbs": "python3-pyverbs", None: "libibverbs1 python3-pyverbs"}
            forced = f"the hosts file says {wanted}; " if wanted else ""
            return self._missing("data path", forced + others, self._install.format(packages[wanted]))
        detail = f"{chosen.name} ({chosen.detail})" + (", as the hosts file says" if wanted else "")
        if chosen is facts.data_path(None) and chosen.name != "native":
            advice = f"{detail}: small messages are bound by the CPU; {others}"
            return Finding(
                self.host.name, "data path", CheckState.ADVICE, advice, self._install.format("gcc libc6-dev")
            )
        return self._ok("data path", detail)

    def _device(self, facts: HostFacts) -> Iterator[Finding]:
        device = facts.device(self.host.device)
        if device is None:
            there = ", ".join(known.name for known in facts.devices) or "none"
            detail = f"there is no {self.host.device}; RDMA devices: {there}"
            yield self._missing("device", detail, self._create_device())
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

    def _create_device(self) -> str:
        if self.host.device.startswith("rxe"):
            find = f"$(ip -o addr show to {self.host.data_address} | awk '{{print $2}}')"
            return f"modprobe rdma_rxe && rdma link add {self.host.device} type rxe netdev {find}"
        return "rdma link show   # then name one of these devices in the hosts file"

    def _port(self, device: DeviceFacts, port: PortFacts) -> Iterator[Finding]:
        netdev = port.netdev or "NETDEV"
        if port.state == "ACTIVE":
            yield self._ok("port", f"{device.name}/{port.number} is ACTIVE")
        else:
            detail = f"{device.name}/{port.number} is {port.state}, not ACTIVE"
            yield self._missing("port", detail, f"ip link set {netdev} up")
        yield self._gid(device, port, netdev)
        if port.active_mtu is None or port.active_mtu >= LARGEST_MTU:
            yield self._ok("mtu", f"{port.active_mtu or 'unknown'}")
        else:
            detail = f"{port.active_mtu}; workloads with a larger MTU will be unsupported"
            # 4096 of payload, headers of IPv6, UDP and BTH, and the longest extension, rounded up.
            yield Finding(self.host.name, "mtu", CheckState.ADVICE, detail, f"ip link set {netdev} mtu 4200")
        gid = matching_gid(port, self.host.data_address)
        if self._across_ports and gid is not None and ":" not in self.host.data_address:
            yield from self._other_ports(gid.netdev or netdev)

    def _other_ports(self, netdev: str) -> Iterator[Finding]:
        """Check whether the kernel lets the host's other ports reach this one.

        A kernel drops packets from its own addresses, ARP requests included. Where both ports are in one segment,
        either answers for both by default.
        """
        found = {rule: self._rule(rule, netdev) for rule in _ACROSS_PORTS}
        if None in found.values():
            return
        wrong = [rule for rule, value in found.items() if value not in _ACROSS_PORTS[rule]]
        if not wrong:
            yield self._ok("other ports", f"{netdev} accepts packets from other ports of {self.host.machine}")
            return
        said = ", ".join(f"{rule} is {found[rule]}" for rule in wrong)
        detail = f"{netdev} may drop packets from other ports of {self.host.machine}: {said}"
        settings = " ".join(f"net.ipv4.conf.{netdev}.{rule}={_ACROSS_PORTS[rule][0]}" for rule in wrong)
        yield Finding(self.host.name, "other ports", CheckState.ADVICE, detail, f"sysctl -w {settings}")

    def _rule(self, rule: str, netdev: str) -> int | None:
        """Return a network device's effective setting: the larger of its value and that of all."""
        words = self._run("cat", *(f"/proc/sys/net/ipv4/conf/{each}/{rule}" for each in ("all", netdev))).split()
        found = [number for number in map(whole_number, words) if number is not None]
        return max(found) if len(words) == len(found) == 2 else None

    def _gid(self, device: DeviceFacts, port: PortFacts, netdev: str) -> Finding:
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
        return Finding(self.host.name, "gid", CheckState.ADVICE, detail, right)

    def _no_gid(self, device: DeviceFacts, port: PortFacts, add: str, choose: str) -> Finding:
        """Report that no GID holds the data address, which is normal on InfiniBand."""
        chosen, infiniband = self.host.gid_index, port.link_layer == "InfiniBand"
        if chosen is None and infiniband:
            return self._missing(
                "gid", "GIDs of InfiniBand hold no data_address; the hosts file has to name one", choose
            )
        if chosen is None:
            detail = f"{device.name}/{port.number} has no RoCE v2 GID for data_address {self.host.data_address}"
            return self._missing("gid", detail, add)
        detail = f"index {chosen}, as the hosts file says"
        if infiniband:
            return self._ok("gid", detail)
        return Finding(
            self.host.name,
            "gid",
            CheckState.ADVICE,
            f"{detail}; no GID holds data_address {self.host.data_address}",
            add,
        )

    def _counters(self, catalog_for: CatalogFor) -> Iterator[Finding]:
        """Report the known counters, and whether the NIC shows pause. Nothing without a port."""
        try:
            port = rdma_port(self.host, self.session.facts)
        except TestbedError:
            return  # reported above
        names = exposed_names(self.session, port, self._clock)
        catalog = catalog_for(port.driver)
        if catalog is None:
            found = sum(map(len, names.values()))
            detail = f"driver {port.driver} has no catalog; its {found} counters keep the driver's names"
            yield Finding(
                self.host.name, "counters", CheckState.ADVICE, detail, "here: see docs/explanation/counters.md"
            )
            return
        there = [counter for counter in catalog.counters if counter.key[1] in names.get(counter.key[0], ())]
        unknown = catalog.unmapped(names)
        detail = f"{len(there)} of {len(catalog.counters)} of catalog {catalog.driver}"
        if unknown:
            detail += f"; {len(unknown)} unknown, such as {unknown[0][1]}"
        yield self._ok("counters", detail)
        pausing = catalog.of_role(Role.TX_PAUSE)
        if pausing and port.link_layer == "Ethernet" and not any(counter in pausing for counter in there):
            detail = "PFC is off on every priority: anomalies show as loss instead of pause"
            command = f"dcb pfc set dev {port.netdev} prio-pfc 3:on   # the priority that your network is lossless on"
            yield Finding(self.host.name, "flow control", CheckState.ADVICE, detail, command)

    def _clock_rate(self) -> Finding:
        begin, asked_first, told_first = self._host_clock()
        self._clock.sleep(self.session.timing.clock_seconds)
        end, asked_last, told_last = self._host_clock()
        # The host read its clock between question and answer, so only a deviation beyond that is drift.
        elapsed = end - begin
        slowest, fastest = elapsed / (told_last - asked_first), elapsed / max(1e-9, asked_last - told_first)
        drift = min(0.0, fastest - 1) + max(0.0, slowest - 1)
        if abs(drift) <= MAX_CLOCK_DRIFT:
            return self._ok("clock", "runs as fast as this machine's")
        detail = f"runs {abs(drift):.1%} {'faster' if drift > 0 else 'slower'} than this machine's"
        command = "cat /sys/devices/system/clocksource/clocksource0/current_clocksource; uptime"
        return Finding(self.host.name, "clock", CheckState.ADVICE, detail, command)

    def _host_clock(self) -> tuple[float, float, float]:
        asked = self._clock.monotonic()
        clock = float(self.session.request("ping")["clock"])
        return clock, asked, self._clock.monotonic()

    def _run(self, *argv: str) -> str:
        done = self._remote.run(argv, COMMAND_SECONDS)
        return done.stdout if done.status == 0 else ""

    def _port_option(self) -> str:
        return f"-p {self.host.port} " if self.host.port else ""

    def _ok(self, item: str, detail: str) -> Finding:
        return Finding(self.host.name, item, CheckState.OK, detail)

    def _missing(self, item: str, detail: str, command: str) -> Finding:
        return Finding(self.host.name, item, CheckState.MISSING, detail, command)
