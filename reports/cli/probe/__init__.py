"""The command `probe` for unmodified programs."""
