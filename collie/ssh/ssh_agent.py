"""The SSH agent, which holds the user's keys and signs with them: a program like any other, that may hang."""

from __future__ import annotations

import os
import socket
from typing import Any

import paramiko
from paramiko.agent import AgentKey, AgentSSH

SOCKET_VARIABLE = "SSH_AUTH_SOCK"
_WITHOUT = f"start it anew, or unset {SOCKET_VARIABLE} to do without it"


class SshAgent(AgentSSH):
    """What paramiko's own does, but asked when its keys are wanted and not before, and never waited for without end.

    Args:
        answer_seconds: for the list of its keys.
        sign_seconds: for a signature: a hardware key waits for a touch, and some agents ask their user.

    Attributes:
        fault: what it did not do in time and what helps, in words; empty while all is well.
    """

    def __init__(self, answer_seconds: float, sign_seconds: float) -> None:
        super().__init__()
        self._answer_seconds = answer_seconds
        self._sign_seconds = sign_seconds
        self._path = os.environ.get(SOCKET_VARIABLE, "")
        self._late = f"does not answer within {answer_seconds:g} s; {_WITHOUT}"
        self.fault = ""

    def get_keys(self) -> tuple[AgentKey, ...]:
        """Return its keys; none where there is no agent.

        Raises:
            SSHException: it does not answer, or with something else.
        """
        if not self._path:
            return ()
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(self._answer_seconds)
        try:
            connection.connect(self._path)
        except BlockingIOError as error:  # so many wait for it already that nobody else may
            connection.close()
            raise self._failed(self._late) from error
        except OSError:  # the variable has outlived its agent
            connection.close()
            return ()
        try:
            self._connect(connection)  # type: ignore[attr-defined]  # paramiko has no public way
        except ValueError as error:  # a comment of a key may be anything
            raise self._failed(f"lists its keys in another encoding than UTF-8 ({error}); {_WITHOUT}") from error
        connection.settimeout(self._sign_seconds)
        self._late = (
            f"does not sign within {self._sign_seconds:g} s; see whether it, or the hardware that holds the key, waits "
            "for you"
        )
        return super().get_keys()

    def close(self) -> None:
        """End the conversation."""
        self._close()  # type: ignore[attr-defined]

    def _send_message(self, message: Any) -> Any:
        try:
            return super()._send_message(message)  # type: ignore[misc]
        except TimeoutError as error:
            raise self._failed(self._late) from error

    def _failed(self, how: str) -> paramiko.SSHException:
        self.fault = f"the SSH agent at {self._path} (${SOCKET_VARIABLE}) {how}"
        return paramiko.SSHException(self.fault)
