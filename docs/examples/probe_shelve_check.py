"""The promise of sync() in shelve's documentation: "synchronize the persistent dictionary on disk, if feasible"."""

# mypy: disable-error-code="arg-type, var-annotated"
import dbm.dumb
import shelve
from collections.abc import Iterator
from pathlib import Path


def check(directory: Path, acknowledged: list[str]) -> Iterator[str]:
    """Yield each synced object that is missing or changed. Only synced objects are promised."""
    if not acknowledged:
        return
    try:
        with shelve.Shelf(dbm.dumb.open(str(directory / "orders"))) as orders:
            found = {name: orders[name]["number"] for name in acknowledged if name in orders}
    except Exception as error:
        yield f"synced objects cannot be read: {type(error).__name__}"
        return
    for name in acknowledged:
        if name not in found:
            yield f"synced object {name!r} is lost"
        elif found[name] != int(name.split()[1]):
            yield f"synced object {name!r} is another one"
