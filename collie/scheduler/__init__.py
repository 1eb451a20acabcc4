"""Several pairs of hosts as one testbed."""
