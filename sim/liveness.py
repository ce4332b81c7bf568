"""Who waits for what: the lines under a deadlock."""

from collections.abc import Iterable

from .task import SimTask


def describe_waits(tasks: Iterable[SimTask], now_ns: int) -> list[str]:
    """Return one line per task: its name, what it waits for, who holds that, and until when it would wait."""
    return [f"{task.name}: {_describe_wait(task, now_ns)}" for task in tasks]


def _describe_wait(task: SimTask, now_ns: int) -> str:
    if task.waiting is None:
        return "runnable"
    wait = task.waiting.describe()
    if task.due_ns is None:
        return wait
    return f"{wait} until +{(task.due_ns - now_ns) / 1e6:g} ms"
