"""Deterministic simulation: cooperative tasks on virtual time.

The package `sim` imports no other package of the project. `guard` and `determinism` check that a run depends only on
its random choices and its schedule.
"""
