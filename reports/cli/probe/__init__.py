"""The command `probe`, which crashes unmodified programs."""
