"""Checks of crash states: Python functions, commands and servers, and the processes that they run in."""
