"""Remoting: encodes and decodes the messages between clients and brokers."""
