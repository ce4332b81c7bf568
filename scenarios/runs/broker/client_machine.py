"""Client machine: dies at critical moments of its client, and is then replaced.

A client outlives its machines: it keeps persistent state, such as messages to send, and loses state in memory, such as
its position in a queue.
"""

from collections import Counter
from collections.abc import Callable

from ....faults.disk.disk import Disk
from ....sim.choices import Stream
from ....sim.kernel import Kernel
from ....sim.machine import Machine, SimTask
from ....sim.network.hosts import HostNetwork, SimNetwork
from ....store.world import World
from ...claims.machine import world_of

CLIENT_DEATH = "client death"
_UNTIL_DEATH_MS = (0, 0, 1, 10, 100, 1_000)
"""0 means death at the next scheduling point, possibly before the next request."""
_OFF_MS = (1, 100, 2_000, 10_000)


class ClientMachine:
    """The present machine of one client. Invariant: while it is off, a task exists that will switch it on.

    director: the machine that controls the run and never dies.
    """

    def __init__(
        self,
        kernel: Kernel,
        director: Machine,
        network: SimNetwork,
        stream: Stream,
        *,
        name: str,
        host: str,
        death_chance: float,
    ) -> None:
        self.begin: Callable[[World], None] = lambda world: None
        """Starts the client on each new machine."""
        self.on_death: Callable[[], None] = lambda: None
        self.host = host
        self.injected: Counter[str] = Counter()
        self._kernel = kernel
        self._director = director
        self._network = network
        self._stream = stream
        self._name = name
        self._death_chance = death_chance
        self._disk = Disk(kernel, stream.with_subject("disk"))
        self.lives = 0
        self._life: tuple[Machine, HostNetwork] | None = None
        self.died_silently = False
        """Whether the last death of the machine did not end its connections."""
        self._death: SimTask | None = None
        """The task that kills the machine and switches it on again, kept after its end."""

    def switch_on(self) -> None:
        self.lives += 1
        machine = self._kernel.create_machine(self._name if self.lives == 1 else f"{self._name}#{self.lives}")
        endpoint = self._network.connect_machine(machine, self.host)
        self._life = machine, endpoint
        self.begin(world_of(machine, self._disk, endpoint))

    @property
    def is_on(self) -> bool:
        return self._life is not None and self._life[0].alive

    def die_by_chance(self, moment: str) -> None:
        """With probability death_chance, let the machine die now or later. moment: the step of the client."""
        is_dying = self._death is not None and not self._death.ended
        if not is_dying and self._stream.chance(self._death_chance, f"dies {moment}"):
            self._death = self._kernel.spawn(self._director, f"death of {self._name}", self._power_off)

    def stop_deaths(self) -> None:
        self._death_chance = 0.0
        if self._death is not None:
            self._death.join(None)

    def _power_off(self) -> None:
        stream, sleep = self._stream, self._director.tasks.sleep
        if until_ms := stream.choice(_UNTIL_DEATH_MS, "ms until death"):
            sleep(until_ms)
        assert self._life is not None, "the machine has been switched on"
        machine, endpoint = self._life
        endpoint.dies_silently = self.died_silently = stream.chance(0.5, "falls silent")
        self._kernel.kill(machine)
        self.injected[CLIENT_DEATH] += 1
        self.on_death()
        sleep(stream.choice(_OFF_MS, "ms off"))
        self.switch_on()
