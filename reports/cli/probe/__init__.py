"""The command that probes programs, as they are."""
