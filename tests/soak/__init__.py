"""Honest clients of a broker among hostile ones: whether the latter cost the former anything, and leave anything."""
