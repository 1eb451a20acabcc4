"""From plain values of YAML and JSON to a workload. Inverse of `workload.render`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from math import gcd
from typing import Any

from collie.suggest import did_you_mean, nearest
from collie.workloads.plan import MAX_PARTNERS, MAX_RAILS
from collie.workloads.units import parse_bytes, parse_rate
from collie.workloads.workload import (
    CONTROL_VERBS,
    EVEN,
    FIELD_NAMES,
    Connection,
    Direction,
    Memory,
    Opcode,
    QpType,
    Workload,
)

_Reader = Callable[[Any], Any]

_MAX_WHOLE = (1 << 63) - 1
_MAX_ENTRIES = 1024  # the agent's limit, devices take some 30
_MAX_IN_TURN = 1024  # a host prepares each work request for every queue pair


def _whole(raw: Any) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise ValueError(f"{raw!r} is no whole number")
    if raw < 0:
        raise ValueError(f"{raw} is negative")
    if raw > _MAX_WHOLE:
        raise ValueError(f"{raw} is too large; no size and no count has more than 63 bits")
    return raw


def _positive(raw: Any) -> int:
    if _whole(raw) == 0:
        raise ValueError("0 is too small; the least is 1")
    return int(raw)


def _size(raw: Any) -> int:
    size = _bytes(raw)
    if size < 1:
        raise ValueError(f"{raw!r} is too small; the least is 1 byte")
    return size


def _bytes(raw: Any) -> int:
    return _whole(parse_bytes(raw))


def _rate(raw: Any) -> int:
    if isinstance(raw, int):  # an int stays exact, a float would not
        return _whole(raw)
    rate = parse_rate(raw)
    if not 1 <= rate <= _MAX_WHOLE and rate != 0:
        raise ValueError(f"{raw!r} is out of range; 1 bit/s is the least, and 0 keeps send queues full")
    return _whole(round(rate))


def _flag(raw: Any) -> bool:
    if not isinstance(raw, bool):
        raise ValueError(f"{raw!r} is neither true nor false")
    return raw


def _one_of(kind: type[StrEnum]) -> _Reader:
    def read(raw: Any) -> Any:
        try:
            return kind(raw)
        except ValueError:
            meant = nearest(raw, kind) if isinstance(raw, str) else None
            if meant is not None and meant.casefold() == raw.casefold():
                return kind(meant)
            raise ValueError(f"{raw!r} is unknown; one of {', '.join(kind)}") from None

    return read


_OPCODE = _one_of(Opcode)


def _split(raw: Any) -> str | tuple[int, ...]:
    if raw == EVEN:
        return EVEN
    if not isinstance(raw, Sequence) or isinstance(raw, str) or not raw:
        raise ValueError(f"{raw!r} is no split; write even, or the bytes of the leading entries as a list")
    if len(raw) > _MAX_ENTRIES:
        raise ValueError(f"a split of {len(raw)}; a work request has at most {_MAX_ENTRIES} entries")
    return tuple(_size(item) for item in raw)


def _sizes(raw: Any) -> tuple[int, ...]:
    items = _in_turn(raw)
    if not items:
        raise ValueError("an empty list sends nothing; give at least one size")
    return tuple(_size(item) for item in items)


def _opcodes(raw: Any) -> tuple[Opcode, ...]:
    return tuple(_OPCODE(item) for item in _in_turn(raw))


def _in_turn(raw: Any) -> Sequence[Any]:
    """Return the items of a list, a single value or a mapping of values to weights."""
    if isinstance(raw, Mapping):
        weights = [_positive(weight) for weight in raw.values()]
        least = gcd(*weights) or 1  # without weights the list is empty
        if sum(weights) // least > _MAX_IN_TURN:
            raise ValueError(
                f"the weights {', '.join(map(str, weights))} make a list of {sum(weights) // least}; "
                f"at most {_MAX_IN_TURN}: use smaller ones"
            )
        return [value for value, weight in zip(raw, weights, strict=True) for _ in range(weight // least)]
    items = raw if isinstance(raw, Sequence) and not isinstance(raw, str) else [raw]
    if len(items) > _MAX_IN_TURN:
        raise ValueError(f"a list of {len(items)}; at most {_MAX_IN_TURN}")
    return items


def _mtu(raw: Any) -> int:
    mtu = parse_bytes(raw)
    if mtu not in (256, 512, 1024, 2048, 4096):
        raise ValueError(f"{raw!r} is no path MTU; one of 256, 512, 1024, 2048, 4096")
    return mtu


def _at_most(limit: int, rule: str = "the field holds at most {}", read: Callable[[Any], int] = _whole) -> _Reader:
    def read_limited(raw: Any) -> int:
        if read(raw) > limit:
            raise ValueError(f"{raw} is too large; {rule.format(limit)}")
        return int(raw)

    return read_limited


_MAX_NEW_PER_SECOND = 1_000_000
_HOSTS = _at_most(MAX_PARTNERS, "one host has traffic with at most {} others", _positive)


_READERS: dict[str, _Reader] = {
    "direction": _one_of(Direction),
    "loopback": _flag,
    "numa_node": _whole,
    "peer_numa_node": _whole,
    "memory": _one_of(Memory),
    "peer_memory": _one_of(Memory),
    "huge_pages": _flag,
    "requesters": _HOSTS,
    "responders": _HOSTS,
    "rails": _at_most(MAX_RAILS, "at most {} pairs of ports measure together", _positive),
    "remote": _flag,
    "mrs_per_qp": _positive,
    "mr_bytes": _size,
    "qp_type": _one_of(QpType),
    "opcode": _OPCODE,
    "more_opcodes": _opcodes,
    "qps": _positive,
    "mtu": _mtu,
    "wqe_batch": _positive,
    "signal_every": _positive,
    "sge_count": _at_most(_MAX_ENTRIES, "a work request has at most {} entries", _positive),
    "sge_split": _split,
    "send_wq_depth": _positive,
    "recv_wq_depth": _positive,
    "messages": _sizes,
    "offered_bps": _rate,
    **dict.fromkeys(CONTROL_VERBS, _at_most(_MAX_NEW_PER_SECOND, "at most {} a second are modelled")),
    "control_verbs_imitated": _flag,
    "max_inline_data": _bytes,
    "max_rd_atomic": _at_most(255, read=_positive),
    "max_dest_rd_atomic": _at_most(255, read=_positive),
    "timeout": _at_most(31),
    "retry_cnt": _at_most(7),
    "rnr_retry": _at_most(7),
    "min_rnr_timer": _at_most(31),
    "connection": _one_of(Connection),
    "sq_sig_all": _flag,
    "srq": _flag,
    "fence": _flag,
    "sq_psn": _at_most(0xFFFFFF),
    "traffic_class": _at_most(255),
    "hop_limit": _at_most(255),
}
assert tuple(_READERS) == FIELD_NAMES


def parse_value(dimension: str, raw: Any) -> Any:
    """Parse one field. Raises `ValueError` with the fault of the value and its remedy."""
    return _READERS[dimension](raw)


def unknown_key(key: str, known: Sequence[str]) -> str:
    """Return the complaint about an unknown key."""
    hint = did_you_mean(key, known) or f"; known: {', '.join(known)}"
    return f"unknown key {key!r}{hint}"


def parse_workload(
    raw: Mapping[str, Any], base: Workload | None = None
) -> tuple[Workload | None, list[tuple[str, str]]]:
    """Parse a workload. Missing fields come from `base`. Constraints between fields are not checked.

    Returns:
        The workload, or None after any complaint, and complaints: a key, with its fault and remedy.
    """
    values: dict[str, Any] = {}
    complaints: list[tuple[str, str]] = []
    for key, value in raw.items():
        if key not in _READERS:
            complaints.append((str(key), unknown_key(str(key), FIELD_NAMES)))
            continue
        try:
            values[key] = parse_value(key, value)
        except ValueError as error:
            complaints.append((key, f"{key}: {error}"))
    if complaints:
        return None, complaints
    return (base or Workload()).with_(**values), []
