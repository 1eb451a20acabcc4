"""Commands on several machines of a lab at once, with one deadline."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from collie.lab.keys import ssh_command
from collie.lab.spec import MachineSpec, StateDir


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command on a machine.

    Attributes:
        status: exit status, of `ssh` where the machine was not reached. None when it did not end in time.
        output: standard output and standard error.
    """

    status: int | None
    output: str


def run_on_each(
    commands: Mapping[MachineSpec, str], state: StateDir, timeout_seconds: float
) -> dict[str, CommandResult]:
    """Run a shell command on each machine. Return the results by machine. Late commands are ended."""
    answers: dict[str, CommandResult] = {}
    deadline = time.monotonic() + timeout_seconds
    with ExitStack() as stack:
        attempts: list[tuple[MachineSpec, subprocess.Popen[str]]] = []
        for one, command in commands.items():
            attempt = subprocess.Popen(
                ssh_command(one, state, (command,)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.enter_context(attempt)  # waits at the end, after the kill below
            stack.callback(attempt.kill)
            attempts.append((one, attempt))
        for one, attempt in attempts:
            try:
                output, _ = attempt.communicate(timeout=max(0.1, deadline - time.monotonic()))
                answers[one.name] = CommandResult(attempt.returncode, output)
            except subprocess.TimeoutExpired:
                answers[one.name] = CommandResult(None, "")
    return answers
