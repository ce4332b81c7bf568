"""Bytes <-> values: every on-disk format of the store, without any I/O."""
