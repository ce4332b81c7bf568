"""Formats: encodes and decodes every file and stream of the store, without I/O."""
