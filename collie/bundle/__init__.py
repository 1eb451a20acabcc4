"""Bundles: one file that repeats an anomaly where Collie is not installed.

A bundle is a zip archive that Python runs. It contains the required modules of Collie (`modules`), including the judge,
the agent for the hosts, and the anomaly as data (`content`). `archive` makes and reads bundles. `controller` runs in
them, with the standard library and the `ssh` program.
"""
