"""How to look: strategies, objectives, extraction of minimal feature sets, recipes. Pure: no I/O."""
