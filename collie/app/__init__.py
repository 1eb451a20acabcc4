"""Use cases on ports.

Each raises the errors of its inputs: a wrong file (`ContentError`, `InventoryError`), an absent or damaged campaign
(`StoreError`), a wrong option (`UsageError`), an unusable testbed (`TestbedError`). `Raises:` in a docstring names only
further cases.
"""
