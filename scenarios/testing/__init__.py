"""Crash tests in pytest: a user's own storage code, or the store, seed after seed. pytest loads `plugin`."""
