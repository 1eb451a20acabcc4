"""Formats that a CI or a monitor reads: JUnit, Markdown, Prometheus."""
