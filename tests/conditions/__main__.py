"""`python -m tests.conditions`: the outcomes of the store's conditions that few runs reach."""

import typer

from .command import print_conditions

if __name__ == "__main__":
    typer.run(print_conditions)
