"""`python -m tests.soak`: a broker among hostile clients."""

import typer

from .command import soak

if __name__ == "__main__":
    typer.run(soak)
