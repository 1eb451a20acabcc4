"""The command line: only arguments and output."""
