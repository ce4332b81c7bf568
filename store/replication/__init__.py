"""Replication: a master copies its log to slaves, and puts can wait for a slave."""
