"""Catalogs of counters, readings, differences and series. Pure: no I/O."""
