"""Connections to hosts. `SshRemote` needs paramiko, `LocalRemote` and `OpenSshRemote` do not."""
