"""Real hosts as a testbed: agents that are shipped, started, spoken to and ended, and what their samples mean."""

from collie.hosts.check import check_hosts
from collie.hosts.findings import CheckState, Finding
from collie.hosts.testbed import HostsTestbed
from collie.readings.policy import WindowPolicy

__all__ = ["CheckState", "Finding", "HostsTestbed", "WindowPolicy", "check_hosts"]
