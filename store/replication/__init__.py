"""Replication: a master sends its log to slaves, and puts can wait for a slave."""
