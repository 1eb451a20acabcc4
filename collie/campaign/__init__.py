"""The loop on ports: search, confirm, explain."""
