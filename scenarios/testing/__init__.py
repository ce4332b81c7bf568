"""Crash tests in pytest, for a user's own storage code or for the store.

pytest loads the module `plugin`.
"""
