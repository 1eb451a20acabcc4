"""Formats for CI and monitoring."""
