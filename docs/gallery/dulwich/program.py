"""dulwich, git in Python: `default`, or `fsync`, its core.fsyncObjectFiles; a transaction is a commit of one file."""

from collections.abc import Sequence
from pathlib import Path

from dulwich.repo import Repo
from transactions import NUMBERS, installed, main, promise, rows_in, value_of

_WHO = b"A <a@example.org>"


def made(directory: Path) -> Repo:
    """Make a repository."""
    return Repo.init(str(directory))


def commit(repository: Repo, name: str, content: bytes) -> None:
    """Commit one file."""
    Path(repository.path, name).write_bytes(content)
    worktree = repository.get_worktree()
    worktree.stage([name.encode()])
    worktree.commit(message=name.encode(), author=_WHO, committer=_WHO, commit_timestamp=0, author_timestamp=0)


def make(setting: str) -> None:
    """Make a repository with a commit."""
    with made(Path()) as repository:
        config = repository.get_config()
        config.set((b"core",), b"fsyncObjectFiles", setting == "fsync")
        config.write_to_path()
        commit(repository, "0", b"")


def write(setting: str) -> None:
    """Commit."""
    with Repo(".") as repository:
        for number in NUMBERS:
            commit(repository, str(number), value_of(number))
            promise(number)


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, without old locks; read all objects of the last commit, and commit."""
    for lock in directory.rglob("*.lock"):
        lock.unlink()
    with Repo(str(directory)) as repository:
        tree = repository[repository[repository.head()].tree]
        for entry in repository.get_walker():
            entry.changes()
        names = {entry.path.decode(): repository[entry.sha].data for entry in tree.iteritems()}
        found = [rows_in(names.get(str(number)), number) for number in NUMBERS]
        commit(repository, "more", b"")
        return found


main(write, count, lambda: installed("dulwich"), make)
