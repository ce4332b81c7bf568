"""A settings file, replaced as a whole, that must survive every crash. Each printed version is a promise.

    tornlog probe --check probe_atomic_writer_check.py -- probe_atomic_writer.py [no-file-sync | no-directory-sync]

The arguments leave one of the two syncs out.
"""

import os
import sys


def replace(path: str, content: str, *, sync_file: bool = True, sync_directory: bool = True) -> None:
    """Write a new file, sync it, rename it over the old one, sync the directory."""
    with open(f"{path}.new", "w") as file:
        file.write(content)
        file.flush()
        if sync_file:
            os.fsync(file.fileno())
    os.replace(f"{path}.new", path)
    if sync_directory:
        directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


if __name__ == "__main__":
    for number in range(1, 4):
        replace(
            "settings",
            f"version {number}\n" * 100,
            sync_file="no-file-sync" not in sys.argv,
            sync_directory="no-directory-sync" not in sys.argv,
        )
        print(number)
