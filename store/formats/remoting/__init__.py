"""Bytes <-> values of what clients and brokers say to each other, without any network."""
