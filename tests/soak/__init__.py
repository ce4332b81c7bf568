"""Soak: honest clients of a broker among hostile ones, and the cost of the latter."""
