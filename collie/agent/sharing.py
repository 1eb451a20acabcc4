"""Divides the commands of a run over its engines and joins their replies. Pure.

1. Engine *p* has the same share of a flow at both ends. Its queue pair *i* connects to queue pair *i* of engine *p* on
   the other host. The first engines take the remainder. One more engine has the whole of the flows that are *apart*.
2. A joint endpoint lists the endpoints of all engines that have a share.
3. A phase with fewer queue pairs divides these in the same way, so each engine uses the first ones of its share. An
   engine without any has nothing to do. The others know how many share the phase.
4. Replies describe whole flows: sums, with consecutive numbers of queue pairs.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, List, Mapping, Sequence

from .faults import bad_request

Reply = Dict[str, Any]


def shares(qps: Mapping[str, int], processes: int, apart: Collection[str] = ()) -> List[Dict[str, int]]:
    """Return each engine's queue pairs by end: of ``processes`` engines, then of the one for the ends ``apart``."""
    shared = {key: count for key, count in qps.items() if key not in apart}
    parts = [
        {key: count // processes + (number < count % processes) for key, count in shared.items()}
        for number in range(processes)
    ]
    parts = [{key: count for key, count in part.items() if count} for part in parts]
    return parts + ([{key: count for key, count in qps.items() if key in apart}] if apart else [])


def divide(command: Dict[str, Any], parts: Sequence[Dict[str, int]]) -> List[Dict[str, Any]]:
    """Return the command of each engine."""
    if command["do"] == "prepare":
        return [{**command, "ends": _ends(command, part), "processes": _sharing(part, parts)} for part in parts]
    if command["do"] == "phase":
        uniform = all(end["workload"] == command["ends"][0]["workload"] for end in command["ends"])
        return [
            {**command, "ends": _ends(command, part), "engines": _sharing(part, parts), "uniform": uniform}
            for part in parts
        ]
    if command["do"] == "connect":
        peers = command["peers"]
        return [
            {**command, "peers": {key: _endpoint(key, peers[key], parts[:number]) for key in part}}
            for number, part in enumerate(parts)
        ]
    return [command] * len(parts)


def _sharing(part: Dict[str, int], parts: Sequence[Dict[str, int]]) -> int:
    """Return how many engines share the flows of one. The flow with the most queue pairs is in all of them."""
    return sum(not part.keys().isdisjoint(other) for other in parts)


def _ends(command: Dict[str, Any], part: Dict[str, int]) -> List[Dict[str, Any]]:
    return [{**end, "qps": part[end["key"]], "flow_qps": end["qps"]} for end in command["ends"] if end["key"] in part]


def _endpoint(key: str, peer: Dict[str, Any], before: Sequence[Dict[str, int]]) -> Dict[str, Any]:
    engines, number = peer["engines"], sum(key in part for part in before)
    if number >= len(engines):
        raise bad_request(f"connect: engine {number + 1} has queue pairs of {key}, its peer has none")
    if not isinstance(engines[number], dict):
        raise bad_request(f"connect: the peer's endpoint of {key} for engine {number + 1} is not an object")
    return dict(engines[number])


def join(do: str, replies: Sequence[Reply], parts: Sequence[Dict[str, int]]) -> Reply:
    """Return the joint reply, or the first failure."""
    for number, reply in enumerate(replies):
        if not reply["ok"]:
            return reply if len(replies) == 1 else _named(reply, f"engine {number + 1} of {len(replies)}")
    return {**replies[0], **_joined(do, replies, parts)}


def _joined(do: str, replies: Sequence[Reply], parts: Sequence[Dict[str, int]]) -> Reply:
    """Return the joint values of the fields that differ between engines."""
    if do == "prepare":
        return _prepared(replies)
    if do == "phase":
        return {"flows": {key: plan for reply in replies for key, plan in reply["flows"].items()}}
    if do == "stop":
        sums = {name: sum(reply[name] for reply in replies) for name in ("failed_qps", "stragglers")}
        return {"drained": all(reply["drained"] for reply in replies), **sums}
    if do == "verify":
        return _verified(replies, parts)
    if do == "destroy":
        flushed = sum(reply["flushed"] for reply in replies)
        return {"flushed": flushed, "clean": all(reply["clean"] for reply in replies)}
    return {}


def _named(reply: Reply, name: str) -> Reply:
    return {**reply, "error": {**reply["error"], "message": f"{name}: {reply['error']['message']}"}}


def _prepared(replies: Sequence[Reply]) -> Reply:
    keys = _keys(replies)
    buffers = {key: [reply["flows"][key]["buffers"] for reply in replies if key in reply["flows"]] for key in keys}
    endpoints = {
        key: {"engines": [reply["endpoints"][key] for reply in replies if key in reply["endpoints"]]} for key in keys
    }
    return {"endpoints": endpoints, "flows": {key: {"buffers": buffers[key]} for key in keys}}


def _keys(replies: Sequence[Reply]) -> List[str]:
    return list(dict.fromkeys(key for reply in replies for key in reply["flows"]))


def _verified(replies: Sequence[Reply], parts: Sequence[Dict[str, int]]) -> Reply:
    flows: Dict[str, Any] = {}
    for key in _keys(replies):
        flows[key], first_qp = None, 0
        for number, part in enumerate(parts):
            found = replies[number]["flows"].get(key)
            if found is not None:
                flows[key] = _with(flows[key], found, first_qp)
            first_qp += part.get(key, 0)
    return {"flows": flows}


def _with(before: Any, found: Dict[str, Any], first_qp: int) -> Dict[str, Any]:
    wrong = found["first_wrong"]
    found = {**found, "first_wrong": wrong and {**wrong, "qp": wrong["qp"] + first_qp}}
    if before is None:
        return found
    sums = {name: before[name] + found[name] for name in ("checked_bytes", "wrong_bytes")}
    return {**sums, "first_wrong": before["first_wrong"] or found["first_wrong"]}
