"""HDF5 by h5py, with a value of `libver`: `earliest`, as it is by default, or `latest`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from h5py import File, version
from transactions import NUMBERS, ROWS, TRANSACTIONS, VALUE_BYTES, Wrong, main, promise

_FILE = "rows.h5"


def make(libver: str) -> None:
    """Make it with a dataset of no rows."""
    shape, shape_max = (0, VALUE_BYTES), (None, VALUE_BYTES)
    with File(_FILE, "w", libver=libver) as file:
        file.create_dataset("rows", shape, dtype="u1", maxshape=shape_max, chunks=(ROWS, VALUE_BYTES))


def write(libver: str) -> None:
    """Append the rows of each transaction, and flush the file."""
    with File(_FILE, "r+", libver=libver) as file:
        for number in NUMBERS:
            rows = file["rows"]
            rows.resize(number * ROWS, axis=0)
            rows[-ROWS:] = number
            file.flush()
            promise(number)


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, and write to it."""
    with File(directory / _FILE, "r+") as file:
        rows = file["rows"][:]
        file["more"] = b""
    for place, row in enumerate(rows):
        if not np.all(row == place // ROWS + 1):
            raise Wrong(f"row {place} is not all {place // ROWS + 1}")
    return [min(ROWS, max(0, len(rows) - start * ROWS)) for start in range(TRANSACTIONS)]


main(write, count, lambda: f"HDF5 {version.hdf5_version} (h5py {version.version})", make)
