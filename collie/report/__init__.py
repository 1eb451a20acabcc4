"""Output: JSON, text, and HTML."""
