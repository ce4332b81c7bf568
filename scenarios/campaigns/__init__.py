"""Campaigns: many seeds, exploration of crash states, mutation runs, determinism."""
