"""Adapter and default testbed: a resource model of RDMA subsystems.

No search imports `truth`, which knows the planted mechanisms.
"""
