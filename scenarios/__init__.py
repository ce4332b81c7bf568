"""Scenarios, their oracle and their campaigns. The only package that imports all others."""
