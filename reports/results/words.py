"""Words of reports: numbers with their nouns, and lists that end early."""

from collections.abc import Sequence


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun. several: its plural, if that has another end than s."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def some_of(names: Sequence[str], most: int) -> str:
    """Return the first few of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
