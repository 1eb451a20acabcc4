"""Output in a terminal: summaries, progress, trials, answers."""
