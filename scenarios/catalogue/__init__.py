"""Scenarios, one claim a file."""
