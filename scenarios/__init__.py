"""Scenarios, their oracle and their campaigns. `scenarios` is the only package that imports all others."""
