"""Sweeps: run many thousand seeds into a table with one row per seed."""
