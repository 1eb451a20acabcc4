"""Collie finds performance anomalies in RDMA subsystems before production does."""

__version__ = "0.1.0"
