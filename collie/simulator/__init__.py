"""Adapter and default testbed: a resource model of RDMA subsystems, and the files that describe them.

`subsystem` says what the hardware is, `demand` what a workload asks of it, `model` what comes of the two, `testbed`
how that looks to whoever measures it. `truth` knows what is planted; nothing here and nothing that searches imports it.
"""
