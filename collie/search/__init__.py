"""Strategies, objectives, recipes and the extraction of minimal feature sets. Pure: no I/O."""
