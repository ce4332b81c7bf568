"""Engines: work is done in this process, piece after piece, or on Spark, as many pieces at once as it has cores.

On Spark, executors are asked first for the packages that tornlog imports. The work is done only where the code is the
driver's: the same seeds give the same rows no other way. A version alone does not distinguish a wheel from the sources
it was built from an hour ago; a hash of them does.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar, cast

from .... import __version__
from ....scenarios.campaigns.interpreters import requirements

Item = TypeVar("Item")
Result = TypeVar("Result")

LOOPBACK = "127.0.0.1"
_WORKERS = r"(\*|[1-9][0-9]*)"
_AT = r"[^\s:,/]+:[0-9]+"
_MASTER = re.compile(
    rf"local(\[{_WORKERS}(, *[0-9]+)?\])?|local-cluster\[ *[0-9]+ *, *[0-9]+ *, *[0-9]+ *\]"
    rf"|spark://{_AT}(,{_AT})*|yarn|k8s://\S+"
)
_AHEAD = 2
"""How many pieces are handed out for each core, so that none waits for the driver."""
_JOBS = 8
"""Jobs among which those are divided, each with a thread here and one in the driver's Java.

A job costs the driver far more than a piece of it does, and gives its results when its slowest piece is done: while
it waits for that, cores are busy with the pieces of the other jobs.
"""
_LOOK_SECONDS = 1.0
"""How often to look whether executors have come, which they do after a cluster's session has begun."""
_PACKAGE = re.compile(r"[\w.-]+")
"""The name at the beginning of a requirement. Each package that tornlog requires is imported under that name."""
_CAUSES = re.compile(
    r"ModuleNotFoundError: (No module named '[^']*')"
    r"|\[PYTHON_VERSION_MISMATCH\] ([^\n]*)"
    r"|(Cannot run program [^\n]*)"
)
"""What Spark's long reports say of executors that could not even begin."""


class ExecutorError(RuntimeError):
    """Executors lack what the work needs, or have it in another version."""


@dataclass(frozen=True, slots=True)
class SameCodeFunction(Generic[Item, Result]):
    """A function that is not called where the code is not that of the one who made this."""

    function: Callable[[Item], Result]
    code: str

    def __call__(self, item: Item) -> tuple[str, Result | None]:
        """Return the code that is here, and what the function makes of an item if it is the right one."""
        here = code_here()
        return here, self.function(item) if here == self.code else None


@cache
def code_here() -> str:
    """Return the version of the code in this process, and a hash of its sources."""
    found = blake2b(digest_size=8)
    for source in _sources(files(__package__.partition(".")[0])):
        found.update(source)
    return f"tornlog {__version__} ({found.hexdigest()})"


def packages_of_executors() -> list[str]:
    """Return the packages that executors import: the requirements of tornlog, and pyarrow for files that they write."""
    return [*(_PACKAGE.findall(line)[0] for line in requirements()), "pyarrow"]


def require_same_code(here: str, found: str) -> None:
    """Raise ExecutorError if an executor has other code than the driver, which has `here`."""
    if found != here:
        raise ExecutorError(f"executors have {found}, the driver has {here}: ship or install the driver's")


def raise_if_lacking(error: Exception) -> None:
    """Raise the ExecutorError that is behind what Spark raises for a job, if there is one."""
    cause = _CAUSES.search(str(error))
    if cause is not None:
        (said,) = filter(None, cause.groups())
        raise ExecutorError(
            f"executors could not begin: {said}. What they need is shipped to them, or installed where they run"
        ) from error


def _sources(package: Traversable) -> Iterator[bytes]:
    """Yield names and contents of a package's modules, in order. What has no __init__.py is none of its packages."""
    parts = sorted(package.iterdir(), key=lambda part: part.name)
    for part in parts:
        if part.name == "setup.py":
            continue  # a checkout has it, a wheel has not
        if part.name.endswith(".py"):
            yield part.name.encode()
            yield part.read_bytes()
        elif part.is_dir() and part.joinpath("__init__.py").is_file():
            yield part.name.encode()
            yield from _sources(part)


class Engine(Protocol):
    """Does independent pieces of work."""

    @property
    def cores(self) -> int:
        """Return how many pieces are done at once, by what is known now."""

    def results(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what function makes of each item, as that comes. Closing the iterator ends the handing out."""


class InProcess:
    """One piece after the other, here."""

    cores = 1

    def results(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results in order."""
        yield from map(function, items)


class OnSpark:
    """Jobs of many pieces each, several at once: no piece waits for the slowest of its wave.

    function and items are pickled, and executors import the modules they are of.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._has_packages = is_in_this_environment(context.master)
        """Whether executors are known to have what tornlog imports."""
        self._code = None if is_in_this_environment(context.master) else code_here()

    @property
    def cores(self) -> int:
        """Return how many cores the executors have that are there now."""
        cores: int = self._context.defaultParallelism
        return cores

    def results(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results as they come.

        Raises ExecutorError if executors cannot import what the work needs, or have other code than the driver.
        """
        source = iter(items)
        pending: dict[Future[list[Result]], int] = {}
        """How many pieces each job has."""
        with ThreadPoolExecutor(2 * _JOBS, thread_name_prefix="spark-job") as pool:
            try:
                if not self._has_packages:
                    pool.submit(self._require_packages).result()
                while True:
                    slots = self.cores * _AHEAD
                    free = slots - sum(pending.values())
                    while free > 0 and (some := list(islice(source, min(free, -(-slots // _JOBS))))):
                        pending[pool.submit(self._made, function, some)] = len(some)
                        free -= len(some)
                    if not pending:
                        return
                    done, _ = wait(pending, _LOOK_SECONDS, return_when=FIRST_COMPLETED)
                    for future in done:
                        del pending[future]
                        yield from future.result()
            except KeyboardInterrupt:
                self._context.setLogLevel("OFF")  # each job that is cancelled would say so on a page of its own
                self._context.cancelAllJobs()
                raise
            finally:
                for future in pending:
                    future.cancel()

    def _require_packages(self) -> None:
        """Raise ExecutorError with the names of all packages that executors lack, before any work begins."""
        wanted = ("tornlog", *packages_of_executors())

        def missing(_: int) -> list[str]:  # pickled as it is, for it runs where there may be no tornlog to import
            from importlib.util import find_spec

            return [name for name in wanted if find_spec(name) is None]

        lacking = {name for names in self._collected(missing, list(range(self.cores))) for name in names}
        if lacking:
            named = ", ".join(name for name in wanted if name in lacking)
            raise ExecutorError(f"executors lack {named}: ship them, or install them where executors run")
        self._has_packages = True

    def _made(self, function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
        if self._code is None:
            return self._collected(function, items)
        results = []
        for found, result in self._collected(SameCodeFunction(function, self._code), items):
            require_same_code(self._code, found)
            results.append(cast(Result, result))
        return results

    def _collected(self, function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
        try:
            made: list[Result] = self._context.parallelize(items, len(items)).map(function).collect()
        except Exception as error:
            raise_if_lacking(error)
            raise
        return made


def is_master(master: str) -> bool:
    """Return whether Spark knows such a master; whether there is one is another question."""
    return _MASTER.fullmatch(master) is not None


def is_in_this_environment(master: str) -> bool:
    """Return whether the work is done by the Python and from the files that are used here."""
    return master == "local" or master.startswith("local[")


def is_on_this_machine(master: str) -> bool:
    """Return whether a master stands for processes of this machine alone."""
    return master.startswith("local") or f"//{LOOPBACK}:" in master
