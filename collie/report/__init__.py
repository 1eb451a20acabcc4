"""Output for people and for CI: JSON, text, and a self-contained HTML file."""
