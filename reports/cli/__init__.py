"""The commands that run scenarios, one job a file."""
