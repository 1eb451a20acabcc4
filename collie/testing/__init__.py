"""Public test kit: one conformance suite per port, and fakes that pass them. Nothing shipped imports it.

To test an implementation of a port, subclass its suite and return the implementation from one fixture.
"""
