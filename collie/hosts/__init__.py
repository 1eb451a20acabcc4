"""Real hosts as a testbed: their agents, their data paths, and the check of both."""
