"""Workloads, spaces, and features that describe sets of workloads. Pure."""
