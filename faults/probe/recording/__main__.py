"""`python -m tornlog.faults.probe.recording`: see `program`."""

from .program import main

main()
