"""Samples: engine totals and device counters."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Optional, Tuple

from . import facts
from .engines import Engines
from .kernel_files import read_int, read_text
from .kernel_threads import DeviceThreads
from .sampler import CounterReader, Values, host_cpu, received_packets

STALLED_SECONDS = 1.0
TIMES = ("latencies", "gaps", "open_gap", "latency_clock")
PERIOD_SECONDS = 0.25


class Run:
    """The run under way."""

    def __init__(self, engines: Engines, device: str, port: int, netdev: Optional[str]) -> None:
        self.engines = engines
        self.device, self.port, self.netdev = device, port, netdev
        self.state = "idle"
        self.data_path: Optional[str] = None
        self.plans: Dict[str, Dict[str, Any]] = {}
        self.first_packets: Optional[int] = None
        self.threads = DeviceThreads() if facts.is_software(device) else None
        self._progress: Dict[str, Any] = {}

    def enter_phase(self, plans: Dict[str, Dict[str, Any]]) -> None:
        """Begin the totals anew, for flows with these plans."""
        self.plans, self._progress = plans, {}

    def flows(self, counters: Dict[str, Values], now: float) -> Dict[str, Any]:
        """Return the ``flows`` object of a sample."""
        return {key: self._flow(key, counters, now) for key in self.engines.totals.qps}

    def _flow(self, key: str, counters: Dict[str, Values], now: float) -> Dict[str, Any]:
        flow = self.engines.totals.end(key)
        plan = self.plans.get(key, {})
        counted_by = plan.get("counted_by")
        if counted_by == "responder_packets":
            flow.update(self._from_packets(key, plan, counters))
        elif counted_by is None:
            flow.update(delivered_messages=None, delivered_bytes=None)
        if not plan.get("returns"):
            flow.update(returned_messages=None, returned_bytes=None)
        if not key.endswith("/requester"):
            flow.update(posted_messages=None, posted_bytes=None, completed_messages=None)
        moves = flow["delivered_messages"] if flow["completed_messages"] is None else flow["completed_messages"]
        flow["stalled"] = self._stalled(key, moves, now)
        flow.update(self.engines.totals.times(key, int(now * 1e9)) if plan.get("timed") else dict.fromkeys(TIMES))
        return flow

    def _from_packets(self, key: str, plan: Dict[str, Any], counters: Dict[str, Values]) -> Dict[str, Any]:
        packets = received_packets(counters)
        if packets is None or self.first_packets is None:
            return {"delivered_messages": None, "delivered_bytes": None}
        qps = self.engines.totals.qps
        responders = sum(count for end, count in qps.items() if end.endswith("/responder"))
        share = (packets - self.first_packets) * qps[key] / responders
        return {
            "delivered_messages": int(share * plan["messages_per_packet"]),
            "delivered_bytes": int(share * plan["payload_per_packet"]),
        }

    def _stalled(self, key: str, moves: Optional[int], now: float) -> Optional[bool]:
        """Whether nothing has completed for 1 s, None where this end counts nothing."""
        if moves is None:
            return None
        last, since = self._progress.get(key, (None, now))
        if moves != last or self.state != "running":
            self._progress[key] = (moves, now)
            return False
        return bool(now - since > STALLED_SECONDS)

    def health(self) -> Dict[str, Any]:
        """Return the ``health`` object of a sample."""
        return {**self.engines.totals.health(), "data_path": self.data_path, **self.engines.times()}


def link(device: str, port: int, netdev: Optional[str]) -> Dict[str, Any]:
    """Return the ``link`` object of a sample."""
    path = os.path.join(facts.INFINIBAND, device)
    port_path = os.path.join(path, "ports", str(port))
    net_path = os.path.join(facts.NET, netdev or "")
    return {
        "state": read_text(port_path, "state"),
        "rate": read_text(port_path, "rate"),
        "netdev_state": read_text(net_path, "operstate"),
        "netdev_speed_mbps": read_int(net_path, "speed"),
        # This counter shows that a link was lost, even if it is up again.
        "carrier_changes": read_int(net_path, "carrier_changes"),
        "pci_speed": read_text(path, "device", "current_link_speed"),
        "pci_width": read_text(path, "device", "current_link_width"),
    }


def take(reader: Optional[CounterReader], run: Optional[Run]) -> Dict[str, Any]:
    """Take one sample."""
    clock = time.monotonic()
    counters = reader.read() if reader else {}
    sample: Dict[str, Any] = {
        "clock": clock,
        "counters": counters,
        "host": {"cpu_seconds": host_cpu(), "agent_cpu_seconds": time.process_time()},
    }
    if run is not None:
        sample["state"] = run.state
        sample["flows"] = run.flows(counters, clock)
        sample["health"] = run.health()
        sample["link"] = link(run.device, run.port, run.netdev)
        if run.threads:
            sample["host"].update(run.threads.cpu_seconds())
    else:
        sample["state"] = "idle"
    sample["clock_end"] = time.monotonic()
    return sample


class Sampling:
    """Schedule and source of samples."""

    def __init__(self, make_reader: Callable[[str, int, Optional[str]], CounterReader]) -> None:
        self._make_reader = make_reader
        self.reader: Optional[CounterReader] = None
        self._place: Optional[Tuple[str, int, Optional[str]]] = None  # device, port and netdev of the reader
        self.next: Optional[float] = None  # due time of the next sample
        self.keep = False  # whether to continue after the run, because the controller requested samples
        self._period = PERIOD_SECONDS
        self._taken = self._dropped = 0

    def read_from(self, device: str, port: int, netdev: Optional[str]) -> CounterReader:
        """Open a port's counters unless they are open. The default ``netdev`` is that of the port's GIDs."""
        place = (device, port, netdev)
        if self.reader is not None and self._place == place:
            return self.reader
        self._close()
        if netdev is None:
            port_path = os.path.join(facts.INFINIBAND, device, "ports", str(port))
            netdev = facts.port_facts(port_path)["netdev"] if os.path.isdir(port_path) else None
        self.reader, self._place = self._make_reader(device, port, netdev), place
        return self.reader

    def start(self, period_seconds: Optional[float]) -> None:
        """Start sampling every ``period_seconds``. None keeps the present period."""
        self._period = float(period_seconds or self._period)
        self.next = time.monotonic()

    def pause(self) -> None:
        """Take no samples until the next ``start``. The counters stay open."""
        self.next = None

    def stop(self) -> None:
        """Stop sampling, and close the counters."""
        self.pause()
        self._close()

    def _close(self) -> None:
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    def sample(self, run: Optional[Run], drop: bool) -> Optional[Dict[str, Any]]:
        """Take the due sample. With ``drop``, only count it as dropped."""
        assert self.next is not None, "sampling is on"
        self.next = max(self.next + self._period, time.monotonic())
        if drop:
            self._dropped += 1
            return None
        event = {"event": "sample", "n": self._taken, **take(self.reader, run), "dropped_samples": self._dropped}
        self._taken += 1
        return event
