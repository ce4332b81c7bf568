"""A machine with a storage system on a device that logs its commands."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.one_life import call_in_one_life
from tornlog.faults.devices.pages import PageCacheLimits
from tornlog.faults.devices.storage import BlockDevice, Run
from tornlog.faults.devices.system import StorageSystem
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import WaitReason
from tornlog.sim.policies.random_walk import RoundRobin

US = 1_000


class Notebook:
    """A device with 100 us per command, 1 us per block, and 10 us per flush."""

    blocks = 1 << 30

    def __init__(self) -> None:
        self.commands: list[tuple[str, list[Run]]] = []
        self._idle_ns = 0

    def write(self, now_ns: int, runs: Sequence[Run]) -> int:
        self.commands.append(("write", list(runs)))
        return self._serve(now_ns, sum(100 + count for _, count in runs))

    def read(self, now_ns: int, run: Run) -> int:
        self.commands.append(("read", [run]))
        return self._serve(now_ns, 100 + run[1])

    def flush(self, now_ns: int) -> int:
        self.commands.append(("flush", []))
        return self._serve(now_ns, 10)

    def of(self, kind: str) -> list[Run]:
        """Return the runs of all commands of a kind, without those of the journal."""
        return [run for name, runs in self.commands if name == kind for run in runs if run[0] >= 32_768]

    def _serve(self, now_ns: int, us: int) -> int:
        self._idle_ns = max(now_ns, self._idle_ns) + us * US
        return self._idle_ns


class Timed:
    """The arguments of a test body on the machine."""

    def __init__(self, kernel: Kernel, device: BlockDevice, memory: PageCacheLimits, **options: Any) -> None:
        self.kernel = kernel
        self.machine = kernel.create_machine("host")
        self.device = device
        self.system = StorageSystem(kernel.create_machine("storage"), device, memory, **options)

    def sleep(self, ms: float) -> None:
        self.kernel.park(WaitReason("asleep"), self.kernel.now_ns + round(ms * 1e6))

    def at_once(self, *bodies: Callable[[], Any]) -> None:
        """Run bodies concurrently, and wait for all."""
        tasks = [self.machine.tasks.spawn(f"task-{number}", body) for number, body in enumerate(bodies)]
        for task in tasks:
            task.join(None)

    def took_us(self, body: Callable[[], Any]) -> float:
        begun_ns = self.kernel.now_ns
        body()
        return (self.kernel.now_ns - begun_ns) / US


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.fixture
def run_timed(notebook: Notebook) -> Callable[..., Any]:
    def run(
        body: Callable[[Timed], Any],
        *,
        device: Callable[[], BlockDevice] | None = None,
        memory: PageCacheLimits | None = None,
        **options: Any,
    ) -> Any:
        """device: makes the device; the default is the notebook. options: those of StorageSystem."""
        with Kernel(RoundRobin(1 << 40), step_limit=1 << 60) as kernel:
            timed = Timed(kernel, notebook if device is None else device(), memory or PageCacheLimits(), **options)
            return kernel.run(timed.machine, lambda: body(timed), time_limit_ns=10**15)

    return run


@pytest.fixture
def timed(run_timed: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a test on the machine, which is then its argument `timed`."""
    return run_timed


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    return call_in_one_life(pyfuncitem, ("timed",))
