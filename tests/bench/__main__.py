"""`python -m tests.bench`: rates of the harness and the store."""

from tornlog.__main__ import run
from tornlog.command_line import application_of

from .command import bench

if __name__ == "__main__":
    run(lambda: application_of("bench", bench))
