"""Catalogs of counters, and their readings. Pure."""
