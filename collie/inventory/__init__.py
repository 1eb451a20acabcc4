"""Who takes part: hosts, pairs and roles. Pure: no I/O."""
