"""Cluster runs: a master and its slaves, each with a disk of its own, on a network."""
