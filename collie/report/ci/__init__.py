"""Formats for CI and monitoring: JUnit, Markdown, Prometheus."""
