"""Adapter and default testbed: a resource model of RDMA subsystems, and the files that describe them.

`hardware` holds the quantities, `demand` the needs of a workload, `model` the steady state, `testbed` the measurement.
`truth` knows the planted mechanisms, and no search imports it.
"""
