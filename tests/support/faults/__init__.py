"""Faults on purpose: processes that are killed, hosts that die, disks that fill; and what must be true afterwards.

`processes` runs Collie as a process that can be hit, `records` compares what campaigns leave on disk. The scripts in
`scripts/acceptance` (resume, faults, soak) put them together for hours, tests in `tests/integration` for seconds.
"""
