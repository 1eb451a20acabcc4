"""The SSH agent, which signs with the user's keys. It may hang, so each request has a deadline.

The protocol is draft-ietf-sshm-ssh-agent: length (4 bytes), type (1), fields.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial

import paramiko

_LIST, _LISTED = 11, 12
_SIGN, _SIGNED = 13, 14
_FLAGS = {"rsa-sha2-256": 2, "rsa-sha2-512": 4}
MAX_KEYS = 2048
MAX_BYTES = 256 << 10
"""OpenSSH's limit of a message."""


class AgentFault(paramiko.SSHException):
    """The agent did not answer or sign."""


class AgentKey(paramiko.PKey):
    """A public key, and a function that maps data and flags to a signature."""

    def __init__(self, blob: bytes, sign: Callable[[bytes, int], bytes]) -> None:
        super().__init__()
        self.public_blob = None
        self.blob = blob
        self.sign = sign

    def get_name(self) -> str:
        """Return the type of the key."""
        return paramiko.Message(self.blob).get_binary().decode(errors="replace")

    def asbytes(self) -> bytes:
        """Return the public key."""
        return self.blob

    def sign_ssh_data(self, data: bytes, algorithm: str | None = None) -> paramiko.Message:
        """Return the agent's signature."""
        plain = (algorithm or "").replace("-cert-v01@openssh.com", "")
        return paramiko.Message(self.sign(data, _FLAGS.get(plain, 0)))


class SshAgent:
    """A conversation with the agent at a socket, if there is one. The first call must be `listed`."""

    def __init__(self, path: str, answer_seconds: float, sign_seconds: float) -> None:
        self._path = path
        self._answer_seconds = answer_seconds
        self._sign_seconds = sign_seconds
        self._socket: socket.socket | None = None

    def listed(self) -> list[AgentKey]:
        """Return the agent's keys. Empty without an agent."""
        late = f"does not answer within {self._answer_seconds:g} s; start it anew, or unset SSH_AUTH_SOCK to do without"
        if not self._path or not self._connected(late):
            return []
        kind, answer = self._asked(bytes([_LIST]), self._answer_seconds, late)
        if kind != _LISTED:
            return []
        blobs = []
        for _ in range(min(answer.get_int(), MAX_KEYS)):
            blobs.append(answer.get_binary())
            answer.get_binary()  # a comment, in any encoding
        return [AgentKey(blob, partial(self._sign, blob)) for blob in blobs if blob]

    def close(self) -> None:
        """End the conversation."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self, late: str) -> bool:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(self._answer_seconds)
        try:
            connection.connect(self._path)
        except BlockingIOError as error:  # the agent's queue of connections is full
            connection.close()
            raise self._fault(late) from error
        except OSError:  # the variable names the socket of an agent that has ended
            connection.close()
            return False
        self._socket = connection
        return True

    def _sign(self, blob: bytes, data: bytes, flags: int) -> bytes:
        request = paramiko.Message()
        request.add_byte(bytes([_SIGN]))
        request.add_string(blob)
        request.add_string(data)
        request.add_int(flags)
        waits = "see whether it, or the hardware that holds the key, waits for you"
        late = f"does not sign within {self._sign_seconds:g} s; {waits}"
        kind, answer = self._asked(request.asbytes(), self._sign_seconds, late)
        if kind != _SIGNED:
            raise self._fault("refuses to sign with a key that it lists; see `ssh-add -l`, and what it asked you")
        return answer.get_binary()

    def _asked(self, request: bytes, seconds: float, late: str) -> tuple[int, paramiko.Message]:
        if self._socket is None:
            raise self._fault("has been left already")
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(len(request).to_bytes(4, "big") + request)
            size = int.from_bytes(self._received(4), "big")
            if not 0 < size <= MAX_BYTES:
                raise self._fault(f"answers with {size} bytes; start it anew")
            answer = self._received(size)
        except TimeoutError as error:
            raise self._fault(late) from error
        except OSError as error:
            raise self._fault(f"ended: {error}") from error
        return answer[0], paramiko.Message(answer[1:])

    def _received(self, size: int) -> bytes:
        assert self._socket is not None, "a request was sent"
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise OSError("it hung up")
            data += more
        return data

    def _fault(self, how: str) -> AgentFault:
        return AgentFault(f"the SSH agent at {self._path} {how}")
