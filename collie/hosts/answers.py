"""The shape of an agent's answer to each request. Additional keys pass through unchecked. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class _Prepared(TypedDict):
    endpoints: Mapping[str, Any]  # by `FLOW/ROLE`


class _QpMessages(TypedDict):
    min: int


class _EndTotals(TypedDict):
    qp_messages: _QpMessages


class _Totals(TypedDict, total=False):
    flows: Mapping[str, _EndTotals]


class _Stopped(TypedDict):
    totals: _Totals
    drained: bool
    failed_qps: int


class _WrongPlace(TypedDict):
    qp: int
    mr: int
    offset: int
    expected: str
    found: str


class _ComparedEnd(TypedDict):
    wrong_bytes: int
    first_wrong: _WrongPlace | None


class _Verified(TypedDict):
    flows: Mapping[str, _ComparedEnd | None]


class _Released(TypedDict, total=False):
    qps_left: int | None
    pids: Sequence[int] | None


class _Pong(TypedDict):
    clock: float


class _ListedQp(TypedDict):
    state: str
    type: str
    pid: int | None
    comm: str | None


class _Resources(TypedDict):
    qps: Sequence[_ListedQp] | None


class _Fingerprinted(TypedDict):
    fingerprint: Mapping[str, Mapping[str, Any]]


ANSWERS: Mapping[str, Any] = {
    "prepare": _Prepared,
    "stop": _Stopped,
    "verify": _Verified,
    "destroy": _Released,
    "bye": _Released,
    "ping": _Pong,
    "resources": _Resources,
    "fingerprint": _Fingerprinted,
}
"""Shape of the answer by request. `host_info` checks the answer to `hello`. Other answers are not read."""
