"""Delayed delivery: delay levels, and transactions with their half messages and decisions."""
