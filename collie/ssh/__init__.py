"""Hosts as the controller reaches them: `SshRemote` over SSH, `LocalRemote` for tests and for this machine.

`openssh.OpenSshRemote` is for programs that have no paramiko. Paramiko is imported here and nowhere else.
"""

from collie.ssh.local import LocalRemote
from collie.ssh.remote import SshRemote

__all__ = ["LocalRemote", "SshRemote"]
