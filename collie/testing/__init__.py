"""Public test kit: one conformance suite per port, and fakes that pass them. Nothing that ships imports it.

An implementation of a port is tested by subclassing its suite and naming the implementation in one fixture.
"""
