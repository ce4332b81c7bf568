"""`python -m tornlog.faults.probe.tracing`: the process that stands beside a program."""

from .process import main

main()
