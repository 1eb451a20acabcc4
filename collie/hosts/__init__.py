"""Real hosts as a testbed: their agents, their data paths, and the check of both."""

from collie.hosts.check import check_hosts
from collie.hosts.findings import CheckState, Finding
from collie.hosts.testbed import HostsTestbed
from collie.readings.policy import WindowPolicy

__all__ = ["CheckState", "Finding", "HostsTestbed", "WindowPolicy", "check_hosts"]
