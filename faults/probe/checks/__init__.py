"""Checks of crash states: Python functions, commands and servers, and their processes."""
