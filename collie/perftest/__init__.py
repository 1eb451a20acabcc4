"""perftest's command lines from and to workloads. Pure."""
