"""Engines: work is done in this process, piece after piece, or on Spark, as many pieces at once as it has cores."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, Protocol, TypeVar, cast

from .masters import is_in_this_environment
from .same_code import SameCodeFunction, code_here, raise_if_lacking, require_same_code

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 2
"""How many pieces are handed out for each core, so that none waits for the driver."""
_JOBS_MAX = 1000
"""Jobs at once, each with a thread here and one in the driver's Java."""
_LOOK_SECONDS = 1.0
"""How often to look whether executors have come, which they do after a cluster's session has begun."""


class Engine(Protocol):
    """Does independent pieces of work."""

    def results(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what function makes of each item, as that comes. Closing the iterator ends the handing out."""


class InProcess:
    """One piece after the other, here."""

    def results(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results in order."""
        yield from map(function, items)


class OnSpark:
    """One job for each piece, from threads of the driver: no piece waits for the slowest of its wave.

    function and items are pickled, and executors import the modules they are of.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._code = None if is_in_this_environment(context.master) else code_here()

    def results(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results as they come.

        Raises ExecutorError if executors cannot import what the work needs, or have other code than the driver.
        """
        source = iter(items)
        pending: set[Future[Result]] = set()
        with ThreadPoolExecutor(_JOBS_MAX, thread_name_prefix="spark-job") as pool:
            try:
                while True:
                    more = islice(source, max(0, self._slots() - len(pending)))
                    pending |= {pool.submit(self._result, function, item) for item in more}
                    if not pending:
                        return
                    done, pending = wait(pending, _LOOK_SECONDS, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                for future in pending:
                    future.cancel()

    def _slots(self) -> int:
        """Return how many pieces to have handed out, with the executors that are there now."""
        cores: int = self._context.defaultParallelism
        return min(cores * _AHEAD, _JOBS_MAX)

    def _result(self, function: Callable[[Item], Result], item: Item) -> Result:
        if self._code is None:
            return self._collected(function, item)
        found, result = self._collected(SameCodeFunction(function, self._code), item)
        require_same_code(self._code, found)
        return cast(Result, result)

    def _collected(self, function: Callable[[Item], Result], item: Item) -> Result:
        try:
            (result,) = self._context.parallelize([item], 1).map(function).collect()
        except Exception as error:
            raise_if_lacking(error)
            raise
        made: Result = result
        return made
