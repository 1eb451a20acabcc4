"""The loop that searches, confirms and explains. Knows only ports."""
