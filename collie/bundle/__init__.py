"""Bundles: one file that repeats an anomaly where Collie is not installed.

A bundle is a zip archive that Python runs. It needs only the standard library and the `ssh` program. It contains the
modules that its `controller` imports, the agent for the hosts, and the anomaly as data.
"""
