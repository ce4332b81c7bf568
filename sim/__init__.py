"""Deterministic simulation: tasks that switch where a policy says, and time that jumps. Imports nothing of ours.

`machine` has what tasks call: locks, signals, clocks. `kernel` runs them and keeps time, `policies` decide who runs,
`choices` draws and records everything else that is left to chance, `trace` lists what happened, `guard` and
`determinism` prove that nothing else had a say.
"""
