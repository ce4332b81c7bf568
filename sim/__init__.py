"""A deterministic machine room: tasks that switch where a policy says, and time that jumps.

`kernel` runs tasks and keeps time, `machine` is what dies with its tasks, `sync` holds what tasks meet at,
`policies` decide who runs, `choices` draws and records everything else that is left to chance, `trace` tells
what happened, `guard` and `determinism` prove that nothing else had a say. Imports nothing of ours.
"""
