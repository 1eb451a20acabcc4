"""Adapter and default testbed: a resource model of RDMA subsystems, and the files that describe them.

From hardware to measurement: `hardware` holds the quantities, `demand` the needs of a workload, `model` the steady
state, `testbed` the measurement. `truth` knows the planted mechanisms. Neither this package's testbed nor any search
imports it.
"""
