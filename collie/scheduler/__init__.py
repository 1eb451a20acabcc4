"""Several pairs of hosts as one testbed: who measures on which, and where."""
