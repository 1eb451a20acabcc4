"""Wait until machines have booted and answer."""

from __future__ import annotations

import socket
import time
from collections.abc import Set
from dataclasses import dataclass

from collie.errors import LabError
from collie.lab.host import Say, tail
from collie.lab.keys import run_on_each
from collie.lab.machine import NeverBooted, find
from collie.lab.spec import LabSpec, MachineSpec, StateDir

POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class BootDeadlines:
    """Deadlines for the console's first output, the end of the init script, and then for SSH and RoCE devices."""

    first_line_seconds: float
    ready_seconds: float
    answer_seconds: float


# Emulated on two idle cores, two machines show a first line after 9 s and are ready after 13 s. Busy computers need
# more. KVM is faster, so a longer boot with it hangs.
KVM_DEADLINES = BootDeadlines(first_line_seconds=20.0, ready_seconds=60.0, answer_seconds=60.0)
TCG_DEADLINES = BootDeadlines(first_line_seconds=120.0, ready_seconds=240.0, answer_seconds=120.0)


def banner(port: int, *, timeout_seconds: float = 5.0) -> bool:
    """Return whether an SSH server greets on a loopback port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_seconds) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def wait_until_answering(lab: LabSpec, started: Set[int], state: StateDir, deadlines: BootDeadlines, say: Say) -> None:
    """Wait until every machine answers over SSH and its RoCE devices are active. `started` are indexes.

    Raises:
        NeverBooted: a machine died or hung before the end of its init script.
        LabError: a machine booted and failed after that.
    """
    begun = time.monotonic()
    waiting = {one.name for one in lab.machines if one.index in started}
    while waiting:
        elapsed = time.monotonic() - begun
        running = find([state.label(name) for name in waiting])
        for name in sorted(waiting):
            console = tail(state.console(name), 200)
            if "collie-lab: failed" in console:
                raise LabError(_with_console(name, state, "booted and could not set itself up"))
            if "collie-lab: ready" in console:
                say(f"{name} has booted ({elapsed:.0f} s)")
                waiting.remove(name)
            elif state.label(name) not in running:
                raise NeverBooted(_with_console(name, state, "ended while it booted"))
            elif elapsed > deadlines.ready_seconds:
                raise NeverBooted(_with_console(name, state, f"did not boot within {deadlines.ready_seconds:.0f} s"))
            elif not console and elapsed > deadlines.first_line_seconds:
                silent = f"showed nothing for {deadlines.first_line_seconds:.0f} s"
                raise NeverBooted(_with_console(name, state, silent))
        time.sleep(POLL_SECONDS)
    _wait_for_ssh(lab, state, deadlines.answer_seconds)


def _with_console(name: str, state: StateDir, fault: str) -> str:
    console = tail(state.console(name)) or "(nothing)"
    return f"{name} {fault}; end of its console:\n{console}\nthe whole of it: {state.console(name)}"


def _wait_for_ssh(lab: LabSpec, state: StateDir, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    waiting = lab.machines
    while True:
        reasons = _try_all(waiting, state, max(1.0, deadline - time.monotonic()))
        if not reasons:
            return
        waiting = tuple(one for one in waiting if one.name in reasons)
        if time.monotonic() > deadline:
            name, reason = next(iter(reasons.items()))
            raise LabError(
                f"{name} booted and does not answer within {timeout_seconds:.0f} s: {reason}; "
                f"its console: {state.console(name)}"
            )
        time.sleep(0.5)


def _try_all(machines: tuple[MachineSpec, ...], state: StateDir, timeout_seconds: float) -> dict[str, str]:
    answers = run_on_each({one: _check(one) for one in machines}, state, timeout_seconds)
    return {
        name: "no answer in time"
        if answer.status is None
        else answer.output.strip() or f"the check ended with status {answer.status}"
        for name, answer in answers.items()
        if answer.status != 0
    }


def _check(one: MachineSpec) -> str:
    return (
        f"for device in {' '.join(f'rxe{number}' for number in range(one.devices))}; do "
        "grep -q ACTIVE /sys/class/infiniband/$device/ports/1/state || { echo $device is not active; exit 1; }; done"
    )
