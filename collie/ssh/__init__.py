"""Connections to hosts: `SshRemote` over SSH, `LocalRemote` for tests and for this machine.

`openssh.OpenSshRemote` needs no paramiko, which is imported here and nowhere else.
"""

from collie.ssh.local import LocalRemote
from collie.ssh.remote import SshRemote

__all__ = ["LocalRemote", "SshRemote"]
