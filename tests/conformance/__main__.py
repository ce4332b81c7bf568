"""`python -m tests.conformance`: comparison with the real RocketMQ store."""

from tornlog.__main__ import run
from tornlog.command_line import application_of

from .command import compare

if __name__ == "__main__":
    run(lambda: application_of("conformance", compare))
