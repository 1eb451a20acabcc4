"""Workloads, spaces of them, and features that describe sets of them. Pure: no I/O."""
