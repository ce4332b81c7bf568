"""Cluster runs: a master and its slaves, each with its own disk, on a network."""
