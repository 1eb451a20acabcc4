"""Hosts, pairs and roles. Pure."""
