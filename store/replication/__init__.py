"""Replication: a master ships its log to slaves byte by byte, and puts can wait for one of them."""
