"""What the name of a master tells of where its work is done."""

LOOPBACK = "127.0.0.1"


def is_in_this_environment(master: str) -> bool:
    """Return whether the work is done by the Python and from the files that are used here."""
    return master == "local" or master.startswith("local[")


def is_on_this_machine(master: str) -> bool:
    """Return whether a master stands for processes of this machine alone."""
    return master.startswith("local") or f"//{LOOPBACK}:" in master
