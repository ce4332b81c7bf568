"""Engines: run tasks in this process one by one, or on Spark in parallel.

Spark executors need the packages that tornlog imports. An executor runs a task only if its tornlog code is the same as
the driver's, because other code may compute other rows for the same seeds. Executors compare a hash of the sources,
because a wheel and newer sources can have the same version.
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
Shared_ = TypeVar("Shared_", covariant=True)

LOOPBACK = "127.0.0.1"
_WORKERS = r"(\*|[1-9][0-9]*)"
_AT = r"[^\s:,/]+:[0-9]+"
_MASTER = re.compile(
    rf"local(\[{_WORKERS}(, *[0-9]+)?\])?|local-cluster\[ *[0-9]+ *, *[0-9]+ *, *[0-9]+ *\]"
    rf"|spark://{_AT}(,{_AT})*|yarn|k8s://\S+"
)
_TASKS_PER_CORE = 2
"""Tasks in flight per core, so that no core waits for the driver."""
_JOBS = 8
"""Number of Spark jobs that share the tasks in flight.

A job needs a thread in this process and one in the driver's JVM, and has far more overhead than a task. A job returns
its results after its slowest task; meanwhile the tasks of other jobs keep the cores busy.
"""
_BUNDLE_SECONDS = 0.5
"""Target duration of a task that has several items."""
_EXECUTOR_COUNT_SECONDS = 1.0
"""Interval between counts of the executors, which register after the session has started."""
_PACKAGE = re.compile(r"[\w.-]+")
"""The name at the start of a requirement; the package has the same import name."""
_CAUSES = re.compile(
    r"ModuleNotFoundError: (No module named '[^']*')"
    r"|\[PYTHON_VERSION_MISMATCH\] ([^\n]*)"
    r"|(Cannot run program [^\n]*)"
)
"""The parts of Spark's error message that explain why executors could not start."""


class ExecutorError(RuntimeError):
    """Executors lack packages, or have other versions or other code than the driver."""


@dataclass(frozen=True, slots=True)
class SameCodeFunction(Generic[Item, Result]):
    """A function that runs only with the tornlog code of the process that created it."""

    function: Callable[[Item], Result]
    code: str

    def __call__(self, item: Item) -> tuple[str, Result | None]:
        here = own_code_version()
        return here, self.function(item) if here == self.code else None


@cache
def own_code_version() -> str:
    found = blake2b(digest_size=8)
    for source in _module_sources(files(__package__.partition(".")[0])):
        found.update(source)
    return f"tornlog {__version__} ({found.hexdigest()})"


def packages_of_executors() -> list[str]:
    """Return the packages that tornlog requires, and pyarrow."""
    return [*(_PACKAGE.findall(line)[0] for line in requirements()), "pyarrow"]


def require_same_code(here: str, found: str) -> None:
    """Raise ExecutorError if the code of an executor differs from the code of the driver, `here`."""
    if found != here:
        raise ExecutorError(f"executors have {found}, the driver has {here}: ship or install the driver's code")


def raise_known_cause(error: Exception) -> None:
    if isinstance(error, ExecutorError):
        raise error
    cause = _CAUSES.search(str(error))
    if cause is not None:
        (reason,) = filter(None, cause.groups())
        raise ExecutorError(
            f"executors could not start: {reason}. Ship the missing packages, or install them on the executors"
        ) from error


def _module_sources(package: Traversable) -> Iterator[bytes]:
    """Yield names and contents of a package's modules, sorted by name. Skips folders without __init__.py."""
    parts = sorted(package.iterdir(), key=lambda part: part.name)
    for part in parts:
        if part.name == "setup.py":
            continue  # a wheel does not have these folders
        if part.name.endswith(".py"):
            yield part.name.encode()
            yield part.read_bytes()
        elif part.is_dir() and part.joinpath("__init__.py").is_file():
            yield part.name.encode()
            yield from _module_sources(part)


class Shared(Protocol[Shared_]):
    """A value that the engine sends to each process once."""

    @property
    def value(self) -> Shared_: ...


@dataclass(frozen=True, slots=True)
class Held(Generic[Item]):
    """A shared value in the process that created it."""

    value: Item


class BundleSize:
    """Adapts the number of items per task to their duration, because a Spark task and a Spark job each cost 30 ms."""

    def __init__(self, items: int = 1) -> None:
        self.items = items

    def adapt(self, items: int, seconds: float) -> None:
        """Adapt the size to the duration of a task. The size at most doubles."""
        assert items > 0, "an empty bundle was handed out"
        self.items = max(1, min(int(_BUNDLE_SECONDS * items / max(seconds, 1e-6)), 2 * self.items))


class Engine(Protocol):
    """Runs independent tasks."""

    @property
    def cores(self) -> int:
        """Number of tasks that can currently run in parallel."""

    def results(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield results in order of completion. After the iterator is closed, no more items are submitted."""

    def shared(self, value: Item) -> Shared[Item]:
        """Share a value that is too large to send with each task."""

    def cancel(self) -> None:
        """Cancel all tasks. Afterwards, iterators of results may raise any error."""


class InProcessEngine:
    """Runs tasks in this process, one by one."""

    cores = 1

    def results(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        yield from map(function, items)

    def shared(self, value: Item) -> Shared[Item]:
        return Held(value)

    def cancel(self) -> None:
        """No-op: there is no other process."""


class SparkEngine:
    """Runs tasks in several Spark jobs at once. Functions and items are pickled; executors import their modules."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._has_packages = is_in_this_environment(context.master)
        """Whether executors certainly have the packages that tornlog imports."""
        self._code = None if is_in_this_environment(context.master) else own_code_version()

    @property
    def cores(self) -> int:
        cores: int = self._context.defaultParallelism
        return cores

    def results(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Raises ExecutorError if executors cannot import the function, or if their code differs from the driver's."""
        source = iter(items)
        pending: dict[Future[list[Result]], int] = {}
        """The number of tasks in each unfinished job."""
        with ThreadPoolExecutor(2 * _JOBS, thread_name_prefix="spark-job") as pool:
            try:
                if not self._has_packages:
                    pool.submit(self._require_packages).result()
                while True:
                    slots = self.cores * _TASKS_PER_CORE
                    free = slots - sum(pending.values())
                    while free > 0 and (some := list(islice(source, min(free, -(-slots // _JOBS))))):
                        pending[pool.submit(self._run_collected, function, some)] = len(some)
                        free -= len(some)
                    if not pending:
                        return
                    done, _ = wait(pending, _EXECUTOR_COUNT_SECONDS, return_when=FIRST_COMPLETED)
                    for future in done:
                        del pending[future]
                        yield from future.result()
            except KeyboardInterrupt:
                self.cancel()
                raise
            finally:
                for future in pending:
                    future.cancel()

    def shared(self, value: Item) -> Shared[Item]:
        shared: Shared[Item] = self._context.broadcast(value)
        return shared

    def cancel(self) -> None:
        self._context.setLogLevel("OFF")  # otherwise each cancelled job prints a page of errors
        self._context.cancelAllJobs()

    def _require_packages(self) -> None:
        wanted = ("tornlog", *packages_of_executors())

        def missing(_: int) -> list[str]:  # pickled by value, because executors may be unable to import tornlog
            from importlib.util import find_spec

            return [name for name in wanted if find_spec(name.replace("-", "_")) is None]

        lacking = {name for names in self._collect_results(missing, list(range(self.cores))) for name in names}
        if lacking:
            named = ", ".join(name for name in wanted if name in lacking)
            raise ExecutorError(f"executors lack {named}: ship them, or install them where executors run")
        self._has_packages = True

    def _run_collected(self, function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
        if self._code is None:
            return self._collect_results(function, items)
        results = []
        for found, result in self._collect_results(SameCodeFunction(function, self._code), items):
            require_same_code(self._code, found)
            results.append(cast(Result, result))
        return results

    def _collect_results(self, function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
        try:
            made: list[Result] = self._context.parallelize(items, len(items)).map(function).collect()
        except Exception as error:
            raise_known_cause(error)
            raise
        assert len(made) == len(items), f"{len(made)} results for {len(items)} items"
        return made


def is_master(master: str) -> bool:
    return _MASTER.fullmatch(master) is not None


def is_in_this_environment(master: str) -> bool:
    """Return whether executors use the Python of this process and its packages."""
    return master == "local" or master.startswith("local[")


def is_on_this_machine(master: str) -> bool:
    return master.startswith("local") or f"//{LOOPBACK}:" in master
