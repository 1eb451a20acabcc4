"""The hosts of a run, and steps on all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass
from typing import Any, TypeVar

from collie.errors import HostUnreachable, TestbedError
from collie.hosts.host_info import HostInfo, RdmaPort
from collie.hosts.protocol import AgentGone
from collie.hosts.session import HostSession
from collie.inventory.hosts import Host

T = TypeVar("T")


@dataclass(frozen=True)
class Endpoint:
    """One host in a run, or one of its devices, with a role `a`, `b`, ..."""

    role: str
    session: HostSession
    port: RdmaPort

    @property
    def host(self) -> Host:
        """The inventory entry."""
        return self.session.host

    @property
    def described(self) -> tuple[Host, HostInfo, RdmaPort]:
        """Inventory entry, description by the agent, and port."""
        return self.session.host, self.session.info, self.port


def min_active_mtu(endpoints: Iterable[Endpoint], default: int) -> int:
    """Return the smallest known active MTU, in bytes."""
    ports = (endpoint.session.info.port(endpoint.port.device, endpoint.port.port) for endpoint in endpoints)
    return min((port.active_mtu for port in ports if port and port.active_mtu), default=default)


class MissingCapability(Exception):
    """The workload needs something that a host lacks."""


_CLOSED = "the testbed was closed under its run"


def in_parallel(executor: Executor, steps: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Run steps and wait for all. Raises the gravest error: a lost host, a lost agent, a failed step.

    If another thread shuts the executor down meanwhile, to close the testbed, the steps that have not begun fail.
    """
    try:
        futures = {name: executor.submit(step) for name, step in steps.items()}
    except RuntimeError as error:  # the executor is shut down
        raise TestbedError(_CLOSED) from error
    failures = [failure for future in futures.values() if (failure := _failure(future)) is not None]
    if failures:
        raise min(failures, key=_gravity)
    return {name: future.result() for name, future in futures.items()}


def _failure(future: Future[Any]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError:
        return TestbedError(_CLOSED)


def _gravity(failure: BaseException) -> int:
    if not isinstance(failure, TestbedError):
        return 0  # a bug or an interrupt outranks the errors that it causes
    return 1 if isinstance(failure, HostUnreachable) else 2 if isinstance(failure, AgentGone) else 3
