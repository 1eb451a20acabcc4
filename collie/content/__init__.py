"""Content files in YAML, read into the pure types.

A loader takes a name or a path. It raises a `ContentError` for an unknown name, or with every problem of the file.
"""
