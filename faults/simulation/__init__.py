"""Simulation of storage code: runs it on a failing disk, seed by seed, and shrinks failures."""
