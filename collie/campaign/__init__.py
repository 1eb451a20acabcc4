"""The loop that searches, confirms and explains. It knows ports alone."""
