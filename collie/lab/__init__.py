"""Soft-RoCE machines under QEMU: real verbs on any Linux machine, without an RDMA NIC.

The machines share one cached root disk, listen on the loopback interface only, and leave only keys and logs behind.
Every failure raises `LabError`, whose text has the remedy.
"""
