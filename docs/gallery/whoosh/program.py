"""Whoosh: the rows of a transaction are documents of one commit."""

from collections.abc import Sequence
from pathlib import Path

from transactions import DATABASE, NUMBERS, installed, main, promise, rows_of
from whoosh.fields import ID, STORED, Schema
from whoosh.index import create_in, open_dir


def make(_: str) -> None:
    """Make it empty."""
    Path(DATABASE).mkdir()
    create_in(DATABASE, Schema(key=ID(stored=True, unique=True), value=STORED))


def write(_: str) -> None:
    """Commit, and let it merge small segments, as it does by default."""
    index = open_dir(DATABASE)
    for number in NUMBERS:
        writer = index.writer()
        for key, value in rows_of(number).items():
            writer.add_document(key=key.decode(), value=value)
        writer.commit()
        promise(number)


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, find each row by its key, and write to it."""
    index = open_dir(directory / DATABASE)
    with index.searcher() as searcher:
        found = []
        for number in NUMBERS:
            documents = {key: searcher.document(key=key.decode()) for key in rows_of(number)}
            found.append(sum(bool(d) and d["value"] == rows_of(number)[key] for key, d in documents.items()))
    writer = index.writer()
    writer.add_document(key="more", value=b"")
    writer.commit()
    return found


main(write, count, lambda: installed("whoosh-reloaded"), make)
