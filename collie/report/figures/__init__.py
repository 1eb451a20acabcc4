"""Charts, strips and maps of severity."""
