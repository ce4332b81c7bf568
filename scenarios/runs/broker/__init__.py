"""Runs of a broker that clients reach over a network which is not to be relied on."""
