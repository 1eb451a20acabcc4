"""perftest's command lines to workloads, and workloads to command lines. Pure."""
