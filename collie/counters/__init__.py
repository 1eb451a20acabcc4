"""What a NIC tells: catalogs of counters, readings, differences and series. Pure: no I/O."""
