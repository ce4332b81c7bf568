"""Simulated disks and networks with faults: page cache, durable data, crash losses."""
