"""Real hosts as a testbed: agents that are shipped, started, spoken to and ended, and what their samples mean."""

from collie.hosts.check import Finding, State, check_hosts
from collie.hosts.testbed import HostsTestbed
from collie.hosts.window import WindowPolicy

__all__ = ["Finding", "HostsTestbed", "State", "WindowPolicy", "check_hosts"]
