"""Several pairs of hosts as one testbed, driven by threads or by workers of a scheduler."""
