"""The JSON objects that commands print."""
