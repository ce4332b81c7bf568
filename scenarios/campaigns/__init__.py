"""Campaigns: runs of many seeds, exploration, mutation runs, determinism checks."""
