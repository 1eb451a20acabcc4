"""What people read in a terminal: summaries, progress, trials, answers."""
