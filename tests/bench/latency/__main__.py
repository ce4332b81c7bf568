"""Entry point of the command."""

from tornlog.__main__ import run
from tornlog.command_line import application_of

from .command import latency

if __name__ == "__main__":
    run(lambda: application_of("latency", latency))
