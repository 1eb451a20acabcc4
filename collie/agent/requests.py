"""Requests of the protocol, and checks of their fields."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Dict, Tuple

from .faults import AgentFault, bad_request

DEFAULT_DEADLINE_SECONDS = 10.0
MAX_ENDS = 16
MAX_QPS = 1 << 20
MAX_PROCESSES = 64
# Steps of the largest workloads take minutes. An endless lease protects nothing, and a period of 0 is a busy loop.
SECONDS = {
    "deadline_seconds": (1e-3, 86400.0),
    "lease_seconds": (0.1, 3600.0),
    "period_seconds": (1e-3, 3600.0),
    "drain_seconds": (0.0, 3600.0),
}
# Integers in requests are ports, indices and counts, all smaller than this.
MAX_NUMBER = 1 << 63
MAX_ID = 1 << 53
# Device names become names of sysfs folders.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}")
NUMBER = (int, float)

# name: (types, required)
FIELDS: Dict[str, Dict[str, Tuple[Any, bool]]] = {
    "hello": {"protocol": (int, True), "lease_seconds": (NUMBER, False)},
    "ping": {},
    "sampling": {
        "on": (bool, True),
        "device": (str, False),
        "port": (int, False),
        "netdev": (str, False),
        "period_seconds": (NUMBER, False),
    },
    "prepare": {
        "device": (str, True),
        "port": (int, False),
        "gid_index": (int, True),
        "workload": (dict, True),
        "flows": (list, True),
        "data_path": (str, False),
        "processes": (int, False),
    },
    "connect": {"peers": (dict, True)},
    "phase": {"workload": (dict, True), "flows": (list, True), "verify": (bool, False)},
    "start": {"period_seconds": (NUMBER, False)},
    "stop": {"drain_seconds": (NUMBER, False)},
    "verify": {"completed": (dict, False)},
    "destroy": {},
    "resources": {"device": (str, True)},
    "fingerprint": {"device": (str, True), "port": (int, False)},
    "bye": {},
}
FLOW_FIELDS = frozenset({"flow", "role", "qps", "peer", "workload", "apart"})


@dataclass(frozen=True)
class Request:
    """One checked request."""

    id: int
    do: str
    deadline_seconds: float
    fields: Dict[str, Any]


def parse_request(line: bytes) -> Request:
    """Parse one line."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"not a JSON line: {str(error)[:200]}") from error
    if not isinstance(data, dict):
        raise bad_request("not a JSON object")
    try:
        return _check(data)
    except AgentFault as fault:
        fault.request_id = data["id"] if isinstance(data.get("id"), int) else None
        raise


def _check(data: Dict[str, Any]) -> Request:
    if type(data.get("id")) is not int or abs(data["id"]) > MAX_ID:
        raise bad_request("id must be an integer of at most 53 bits")
    do = data.get("do")
    if not isinstance(do, str) or do not in FIELDS:
        raise bad_request(f"do must be one of {', '.join(FIELDS)}, not {str(do)[:40]!r}")
    deadline = data.get("deadline_seconds", DEFAULT_DEADLINE_SECONDS)
    _check_seconds("deadline_seconds", deadline)
    fields = {name: value for name, value in data.items() if name not in ("id", "do", "deadline_seconds")}
    for name, value in fields.items():
        if name not in FIELDS[do]:
            raise bad_request(f"{do}: unknown field {name[:40]}")
        kinds = FIELDS[do][name][0]
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise bad_request(f"{do}: {name} has the wrong type")
        if name in SECONDS:
            _check_seconds(name, value, f"{do}: ")
        if name in ("device", "netdev") and not NAME.fullmatch(value):
            raise bad_request(f"{do}: {name} is not a device name")
        if kinds is int and not 0 <= value < MAX_NUMBER:
            raise bad_request(f"{do}: {name} must be 0 to {MAX_NUMBER - 1}")
    if not 1 <= fields.get("processes", 1) <= MAX_PROCESSES:
        raise bad_request(f"{do}: processes must be 1 to {MAX_PROCESSES}")
    for name, (_, required) in FIELDS[do].items():
        if required and name not in fields:
            raise bad_request(f"{do}: {name} is missing")
    return Request(data["id"], do, float(deadline), fields)


def _check_seconds(name: str, value: Any, place: str = "") -> None:
    least, most = SECONDS[name]
    if isinstance(value, bool) or not isinstance(value, NUMBER) or not least <= value <= most:
        raise bad_request(f"{place}{name} must be a number from {least:g} to {most:g}")


def parse_flows(do: str, flows: Any, default: Dict[str, Any]) -> Dict[str, Dict[str, Any]]:
    """Return the ends that a request lists, by key: ``key``, ``role``, ``qps``, ``apart``, unchecked ``workload``."""
    ends: Dict[str, Dict[str, Any]] = {}
    if not 1 <= len(flows) <= MAX_ENDS:
        raise bad_request(f"{do}: flows must list 1 to {MAX_ENDS} ends")
    for entry in flows:
        if not isinstance(entry, dict) or set(entry) - FLOW_FIELDS:
            raise bad_request(f"{do}: fields of a flow are flow, role, qps, peer, workload and apart")
        workload = entry.get("workload", default)
        if not isinstance(workload, dict):
            raise bad_request(f"{do}: the workload of a flow is not an object")
        role, flow, qps = entry.get("role"), entry.get("flow"), entry.get("qps", workload.get("qps", 1))
        if role not in ("requester", "responder") or not isinstance(flow, str) or "/" in flow:
            raise bad_request(f"{do}: a flow needs a name without '/' and the role requester or responder")
        if type(qps) is not int or not 1 <= qps <= MAX_QPS:
            raise bad_request(f"{do}: qps of a flow must be 1 to {MAX_QPS}")
        apart = entry.get("apart", False)
        if type(apart) is not bool:
            raise bad_request(f"{do}: apart of a flow must be true or false")
        key = f"{flow}/{role}"
        if key in ends:
            raise bad_request(f"{do}: {key} is listed twice")
        ends[key] = {"key": key, "role": role, "qps": qps, "workload": workload, "apart": apart}
    return ends
