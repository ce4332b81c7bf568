"""What a probe tries unless somebody says otherwise."""

DISKS = ("strict-posix", "torn-sectors", "ext4-ordered", "process-kill")
"""Kinds of crash, by their profiles."""
LIMIT = 256
"""States of one crash."""
CHECK_SECONDS = 10.0
"""How long a check may take."""
PROGRAM_SECONDS = 300.0
"""How long a program may run."""
FAULT_RUNS = 32
"""At how many calls each fault strikes, at most."""
