"""Adapter: content files in YAML, read into the pure types; every problem of a file at once, with path:line."""
