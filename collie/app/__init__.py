"""Use cases, written on ports. `collie/wiring.py` hands them the concrete classes as `adapters.Adapters`."""
