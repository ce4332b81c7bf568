"""The command `init`: writes a first check and a CI job for a program."""
