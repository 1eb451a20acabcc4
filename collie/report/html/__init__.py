"""The report as one HTML page without external resources."""
