"""Runs of several machines: a master and its slaves on disks of their own, a network between them."""
