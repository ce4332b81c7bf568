"""Probing: every state that a crash of a recorded program may leave, put before its user's own check."""
