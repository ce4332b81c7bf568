"""Runs gone through on purpose: every crash of one, every state that each may leave, every schedule within a bound."""
