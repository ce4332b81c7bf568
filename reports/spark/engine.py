"""Where work is done: in this process, one piece after the other, or on Spark, as many at once as it has cores."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 2
"""How many pieces are handed out for each core, so that none waits for the driver."""


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
        self._slots = context.defaultParallelism * _AHEAD

    def results(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results as they come."""
        source = iter(items)
        pending: set[Future[Result]] = set()
        with ThreadPoolExecutor(self._slots, thread_name_prefix="spark-job") as pool:
            try:
                while True:
                    more = islice(source, self._slots - len(pending))
                    pending |= {pool.submit(self._result, function, item) for item in more}
                    if not pending:
                        return
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                for future in pending:
                    future.cancel()

    def _result(self, function: Callable[[Item], Result], item: Item) -> Result:
        (result,) = self._context.parallelize([item], 1).map(function).collect()
        made: Result = result
        return made
