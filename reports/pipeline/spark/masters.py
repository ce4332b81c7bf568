"""Masters: what a master's name says of where its work is done."""

import re

LOOPBACK = "127.0.0.1"
_WORKERS = r"(\*|[1-9][0-9]*)"
_AT = r"[^\s:,/]+:[0-9]+"
_MASTER = re.compile(
    rf"local(\[{_WORKERS}(, *[0-9]+)?\])?|local-cluster\[ *[0-9]+ *, *[0-9]+ *, *[0-9]+ *\]"
    rf"|spark://{_AT}(,{_AT})*|yarn|k8s://\S+"
)


def is_master(master: str) -> bool:
    """Return whether Spark knows such a master; whether there is one is another question."""
    return _MASTER.fullmatch(master) is not None


def is_in_this_environment(master: str) -> bool:
    """Return whether the work is done by the Python and from the files that are used here."""
    return master == "local" or master.startswith("local[")


def is_on_this_machine(master: str) -> bool:
    """Return whether a master stands for processes of this machine alone."""
    return master.startswith("local") or f"//{LOOPBACK}:" in master
