"""The command that lists what there is to name."""

from .options import JsonFile


def list_(json_file: JsonFile = None) -> None:
    """List scenarios, invariants, faults, disks, policies, mutants and versions."""
    from .names import print_names

    print_names(json_file)
