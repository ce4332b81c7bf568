"""Deterministic simulation: cooperative tasks on virtual time.

This package imports no other package of the project. `machine` has the calls of tasks: locks, signals, clocks. `kernel`
runs tasks and keeps time, `policies` choose the next task, `choices` draws and records all other chance, `trace` lists
events, `guard` and `determinism` prove that a run depends on these alone.
"""
