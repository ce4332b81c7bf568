"""The command `init`, which writes a first check and a CI job for a program."""
