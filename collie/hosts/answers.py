"""The shape of an agent's answer to each request. Pure.

An answer of another shape ends the conversation. Additional keys pass through unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class Prepared(TypedDict):
    """Endpoints by `FLOW/ROLE`, for the other agent."""

    endpoints: Mapping[str, Any]


class QpMessages(TypedDict):
    """Messages over the queue pairs of one end."""

    min: int


class EndTotals(TypedDict):
    """One end of a flow."""

    qp_messages: QpMessages


class Totals(TypedDict, total=False):
    """Totals at the end of posting."""

    flows: Mapping[str, EndTotals]


class Stopped(TypedDict):
    """Answer to `stop`."""

    totals: Totals


class WrongPlace(TypedDict):
    """The first wrong byte of an end."""

    qp: int
    mr: int
    offset: int
    expected: str
    found: str


class ComparedEnd(TypedDict):
    """Result of one end's comparison of payload."""

    wrong_bytes: int
    first_wrong: WrongPlace | None


class Verified(TypedDict):
    """Answer to `verify`."""

    flows: Mapping[str, ComparedEnd | None]


class Left(TypedDict, total=False):
    """Answer to `destroy` and `bye`: queue pairs that the kernel still lists, and their processes."""

    qps_left: int | None
    pids: Sequence[int] | None


class Pong(TypedDict):
    """Answer to `ping`."""

    clock: float


class ListedQp(TypedDict):
    """One queue pair in the kernel's list."""

    state: str
    type: str
    pid: int | None
    comm: str | None


class Resources(TypedDict):
    """Answer to `resources`."""

    qps: Sequence[ListedQp] | None


class Fingerprinted(TypedDict):
    """Answer to `fingerprint`."""

    fingerprint: Mapping[str, Mapping[str, Any]]


ANSWERS: Mapping[str, Any] = {
    "prepare": Prepared,
    "stop": Stopped,
    "verify": Verified,
    "destroy": Left,
    "bye": Left,
    "ping": Pong,
    "resources": Resources,
    "fingerprint": Fingerprinted,
}
"""By request. `facts` checks `hello`. Other answers are not read."""
