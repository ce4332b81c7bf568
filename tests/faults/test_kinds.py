"""Each kind of fault never happens while disabled; enabled, it happens and is counted."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any, NamedTuple

import pytest

from tests.faults.rigs import Rig
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import DamagedRange, FileImage, Image, RotPlan, decay_image
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.faults.kinds import FAULTS, GROUPS, FaultKind
from tornlog.faults.network import NetworkFaults
from tornlog.faults.plan import FAILING_SYNCS, FaultPlan, NetworkPlan
from tornlog.sim.choices import Choices
from tornlog.sim.disturbances import DisturbancePlan, Disturbances
from tornlog.sim.errors import MachineDied
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import Machine
from tornlog.sim.network.hosts import SimNetwork
from tornlog.sim.policies import Policy
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.policies.starving import StarvingPolicy

PAGE = 4096
SEEDS = 60
DURABLE = Image({"/old": FileImage(b"o" * 2 * PAGE, 1), "/gone": FileImage(b"gone", 2)}, ("/hollow",))


class Twin(NamedTuple):
    """A small program for a fault, and the settings that enable it.

    The comparison run has no fault at all and ends with the profile `without`.
    """

    program: Callable[[Rig], None]
    faults: FaultPlan = FaultPlan()
    profile: str = "strict-posix"
    without: str = "process-kill"
    capacity_bytes: int | None = None


def change_everything(rig: Rig) -> None:
    files = rig.files
    files.make_directories("/new")
    files.write("/new/small", b"small")
    files.write("/old", b"afresh")
    files.rename("/new/small", "/new/renamed")
    files.unlink("/gone")
    files.remove_directory("/hollow")


def overwrite_old_file(rig: Rig) -> None:
    mapped = rig.files.map("/old", 2 * PAGE)
    for number in range(1, 4):
        mapped.store(100, bytes([number]) * 3000)


def create_long_file(rig: Rig) -> None:
    rig.files.map("/new", 2 * PAGE)


def sync_often(rig: Rig) -> None:
    """Write and sync a file and its directory; ignore errors."""

    def body() -> None:
        mapped = rig.files.map("/old", 2 * PAGE)
        for number in range(1, 6):
            ignore_os_errors(lambda number=number: rig.files.write(f"/file{number}", b"x"))
            mapped.store(PAGE - 10, bytes([number]) * 20)
            ignore_os_errors(lambda: mapped.msync(0, 2 * PAGE))
            ignore_os_errors(lambda: rig.files.sync_directory("/"))

    rig.run(body)


def write_often(rig: Rig) -> None:
    for number in range(5):
        mapped = rig.files.map("/old", 2 * PAGE)
        ignore_os_errors(lambda mapped=mapped: mapped.pwrite(0, b"some bytes"))
        ignore_os_errors(mapped.mlock)
        ignore_os_errors(lambda number=number: rig.files.write(f"/file{number}", b"some bytes"))


def ignore_os_errors(attempt: Callable[[], Any]) -> None:
    try:
        attempt()
    except OSError:
        return


def remove_often(rig: Rig) -> None:
    """Create and remove a file several times; ignore errors."""

    def body() -> None:
        for _ in range(20):
            rig.files.write("/gone", b"")
            ignore_os_errors(lambda: rig.files.unlink("/gone"))

    rig.run(body)


def rename_often(rig: Rig) -> None:
    """Create and rename a file several times; ignore errors."""

    def body() -> None:
        for _ in range(20):
            rig.files.write("/aside", b"")
            ignore_os_errors(lambda: rig.files.rename("/aside", "/current"))

    rig.run(body)


def view_often(rig: Rig) -> None:
    """View durable bytes through a map several times; ignore errors."""

    def body() -> None:
        mapped = rig.files.map("/old", 2 * PAGE)
        with rig.disk.with_page_ins():
            for _ in range(5):
                ignore_os_errors(lambda: mapped.view(0, PAGE))

    rig.run(body)


def read_often(rig: Rig) -> None:
    """Read, map and look up; ignore errors."""

    def body() -> None:
        for number in range(5):
            ignore_os_errors(lambda: rig.files.read("/gone"))
            ignore_os_errors(lambda: rig.files.map("/old", 2 * PAGE))
            ignore_os_errors(lambda number=number: rig.files.map(f"/file{number}", PAGE))
            ignore_os_errors(lambda: rig.files.status("/old"))
            ignore_os_errors(lambda: rig.files.space("/old"))

    rig.run(body)


class OwnTwin(NamedTuple):
    """A program with its own world, with a fault on or off. It returns the injected faults."""

    program: Callable[[str, bool], Counter[str]]


def read_bad_sector(seed: str, on: bool) -> Counter[str]:
    choices, kernel, machine = bare_world(seed)
    bad = [DamagedRange("/gone", 0, 4, "latent sector error")] if on else []
    disk = Disk(kernel, choices.stream("disk"), image=DURABLE, bad_sectors=bad)
    ignore_os_errors(lambda: disk.mount(machine).read("/gone"))
    return disk.injected


def store_to_hole(seed: str, on: bool) -> Counter[str]:
    choices, kernel, machine = bare_world(seed)
    disk = Disk(kernel, choices.stream("disk"), faults=FaultPlan(sparse=on), capacity_bytes=PAGE)
    files = disk.mount(machine)

    def body() -> None:
        mapped = files.map("/new", PAGE)
        disk.capacity_bytes = 0
        mapped.store(0, b"x")

    with suppress(MachineDied):
        kernel.run(machine, body, time_limit_ns=10**9)
    return disk.injected


def let_image_rot(seed: str, on: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    plan = RotPlan(bit_rot_chance=0.3, zeroed_sector_chance=0.3, swapped_pages_chance=0.3)
    halves = Image({"/old": FileImage(b"a" * PAGE + b"b" * PAGE, 1)}, ())
    decay_image(halves, Choices(seed).stream("rot"), plan if on else RotPlan(), found)
    return found


def take_points(seed: str, on: bool) -> Counter[str]:
    """Let three tasks pass scheduling points, with or without disturbances and a starving policy."""
    choices = Choices(seed)
    policy: Policy = RandomWalk(choices.stream("schedule"), 4)
    starving = StarvingPolicy(choices.stream("starving"), policy, 20, 50)
    kernel = Kernel(starving if on else policy)
    machine = kernel.create_machine("broker")
    plan = DisturbancePlan(paused_task_chance=0.3, paused_machine_chance=0.3, clock_step_chance=0.3)
    disturbances = Disturbances(kernel, choices.stream("disturbances"), plan if on else DisturbancePlan())

    def body() -> None:
        for number in range(2):
            machine.tasks.spawn(f"task-{number}", pass_points)
        pass_points()

    def pass_points() -> None:
        for _ in range(100):
            machine.tasks.sleep(0)

    disturbances.start()
    kernel.run(machine, body, time_limit_ns=3600 * 10**9)
    return disturbances.injected + starving.injected


def sleep_side_by_side(seed: str, on: bool) -> Counter[str]:
    """Let two tasks sleep for times that differ by 1 ms, with or without late timers."""
    choices, kernel, machine = bare_world(seed)
    plan = DisturbancePlan(timer_slack_us=1_000 if on else 0)
    disturbances = Disturbances(kernel, choices.stream("disturbances"), plan)

    def body() -> None:
        machine.tasks.spawn("other", lambda: machine.tasks.sleep(5)).join(10)
        machine.tasks.spawn("other", lambda: machine.tasks.sleep(5))
        machine.tasks.sleep(4)

    disturbances.start()
    kernel.run(machine, body, time_limit_ns=10**9)
    return disturbances.injected


class Networked(NamedTuple):
    """Two hosts that exchange data until one dies, with the given faults."""

    plan: NetworkPlan

    def program(self, seed: str, on: bool) -> Counter[str]:
        choices, kernel, server = bare_world(seed)
        faults = NetworkFaults(kernel, choices.stream("network"), self.plan if on else NetworkPlan())
        network = SimNetwork(kernel, faults)
        client = kernel.create_machine("client")
        at_server, at_client = network.connect_machine(server, "10.0.0.1"), network.connect_machine(client, "10.0.0.2")

        def answer() -> None:
            listener, poller = at_server.listen("10.0.0.1:1"), at_server.poller()
            poller.watch(listener, receives=True, sends=False)
            while True:
                with suppress(OSError):
                    poller.wait(None)
                with suppress(OSError):
                    connection = listener.accept(None)
                    while data := connection.receive(100, None):
                        connection.send(data, None)

        def ask() -> None:
            client.tasks.sleep(1)
            for _ in range(3):
                with suppress(OSError):
                    connection = at_client.connect("10.0.0.1:1", 100)
                    for _ in range(3):
                        connection.send(b"echo", 100)
                        connection.receive(100, 100)
            with suppress(OSError):
                at_client.connect("10.0.0.1:1", 100)
            kernel.kill(server)

        server.tasks.spawn("answer", answer)
        kernel.run(client, ask, time_limit_ns=10**12)
        return faults.injected


def bare_world(seed: str) -> tuple[Choices, Kernel, Machine]:
    choices = Choices(seed)
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 8))
    return choices, kernel, kernel.create_machine("broker")


TWINS: dict[str, Twin | OwnTwin | Networked] = {
    **dict.fromkeys(("page kept", "page lost", "intermediate page", "torn page"), Twin(overwrite_old_file)),
    "torn sector": Twin(overwrite_old_file, FaultPlan(torn_bytes_chance=0.5), without="strict-posix"),
    "garbage sector": Twin(overwrite_old_file, FaultPlan(garbage_chance=0.5), without="strict-posix"),
    **dict.fromkeys(
        (
            "name lost",
            "directory lost",
            "size lost",
            "truncation undone",
            "unlink undone",
            "rename undone",
            "removal undone",
        ),
        Twin(change_everything),
    ),
    "partial extend": Twin(create_long_file, without="xfs"),
    "slow sync": Twin(sync_often, FaultPlan(slow_sync_chance=0.2)),
    "failed sync": Twin(sync_often, FaultPlan(failed_sync_chance=0.2)),
    "failed write-back": Twin(sync_often, FaultPlan(failed_write_back_chance=0.2)),
    "late sync error": Twin(sync_often, FaultPlan(failed_sync_chance=0.3, failing_sync="ext4-data")),
    "failed directory sync": Twin(sync_often, FaultPlan(failed_directory_sync_chance=0.2)),
    "stopped file system": Twin(sync_often, FaultPlan(failed_sync_chance=0.2, stopped_file_system_chance=0.5)),
    "lying sync": Twin(sync_often, FaultPlan(lying_sync_chance=0.3), without="strict-posix"),
    "synced data lost": Twin(sync_often, FaultPlan(lying_sync_chance=0.8), without="strict-posix"),
    "failed creation": Twin(write_often, FaultPlan(failed_creation_chance=0.3)),
    "disk full": Twin(write_often, capacity_bytes=2 * PAGE + 5),
    "failed write": Twin(write_often, FaultPlan(failed_write_chance=0.3)),
    "short write": Twin(write_often, FaultPlan(short_write_chance=0.3)),
    "refused mlock": Twin(write_often, FaultPlan(refused_lock_chance=0.3)),
    "failed read": Twin(read_often, FaultPlan(failed_read_chance=0.3)),
    "failed map": Twin(read_often, FaultPlan(failed_map_chance=0.3)),
    "failed page-in": Twin(view_often, FaultPlan(failed_page_in_chance=0.3)),
    "slow page-in": Twin(view_often, FaultPlan(slow_page_in_chance=0.3)),
    "failed look-up": Twin(read_often, FaultPlan(failed_lookup_chance=0.3)),
    "failed space query": Twin(read_often, FaultPlan(failed_space_query_chance=0.3)),
    "failed removal": Twin(remove_often, FaultPlan(failed_removal_chance=0.3)),
    "failed rename": Twin(rename_often, FaultPlan(failed_rename_chance=0.3)),
    "failed extend": Twin(read_often, FaultPlan(failed_extend_chance=0.3)),
    "slow IO": Twin(read_often, FaultPlan(slow_io_chance=0.3)),
    "stalled device": Twin(read_often, FaultPlan(stall_chance=0.3)),
    "lost write": Twin(sync_often, FaultPlan(lost_write_chance=0.3)),
    "misdirected write": Twin(sync_often, FaultPlan(misdirected_write_chance=0.3)),
    "latent sector error": OwnTwin(read_bad_sector),
    "SIGBUS on full disk": OwnTwin(store_to_hole),
    **dict.fromkeys(("bit rot", "zeroed sector", "swapped pages"), OwnTwin(let_image_rot)),
    **dict.fromkeys(("paused task", "paused machine", "clock step", "starved task"), OwnTwin(take_points)),
    "late timers": OwnTwin(sleep_side_by_side),
    "split delivery": Networked(NetworkPlan(split_chance=0.3)),
    "late delivery": Networked(NetworkPlan(late_chance=0.3)),
    "partition": Networked(NetworkPlan(partition_chance=0.1)),
    "one-way link": Networked(NetworkPlan(one_way_chance=0.1)),
    "slow link": Networked(NetworkPlan(slow_link_chance=0.3)),
    "broken connection": Networked(NetworkPlan(broken_chance=0.1)),
    "half-open connection": Networked(NetworkPlan(half_open_chance=0.1)),
    "refused connection": Networked(NetworkPlan(refused_chance=0.3)),
    "failed accept": Networked(NetworkPlan(failed_accept_chance=0.3)),
    "failed poll": Networked(NetworkPlan(failed_poll_chance=0.3)),
    "silent death": Networked(NetworkPlan(silent_death_chance=0.5)),
    "reset at death": Networked(NetworkPlan(reset_at_death_chance=0.5)),
}


def injected(twin: Twin | OwnTwin | Networked, *, on: bool) -> Counter[str]:
    """Run a twin with many seeds; return the injected faults."""
    found: Counter[str] = Counter()
    for seed in range(SEEDS):
        if isinstance(twin, OwnTwin | Networked):
            found += twin.program(str(seed), on)
            continue
        faults = twin.faults if on else FaultPlan()
        rig = Rig(seed=str(seed), image=DURABLE, faults=faults, timing=SyncTiming(1, 1000))
        if on:
            rig.disk.capacity_bytes = twin.capacity_bytes
        twin.program(rig)
        rig.cut(twin.profile if on else twin.without)
        found += rig.injected
    return found


OF_PLANS = [kind for kind in FaultKind if not (kind.row.by_scenarios or kind.row.by_probes)]


@pytest.mark.parametrize("kind", OF_PLANS)
def test_a_fault_kind_is_injected_only_if_enabled(kind: str) -> None:
    twin = TWINS[kind]

    assert injected(twin, on=False)[kind] == 0
    assert injected(twin, on=True)[kind] > 0


@pytest.mark.parametrize("failing_sync", FAILING_SYNCS)
@pytest.mark.parametrize("program", dict.fromkeys(twin.program for twin in TWINS.values() if isinstance(twin, Twin)))
def test_a_disk_without_chances_makes_no_draw_and_adds_no_wait(
    program: Callable[[Rig], None], failing_sync: str
) -> None:
    rig = Rig(image=DURABLE, faults=FaultPlan(failing_sync=failing_sync))
    program(rig)

    assert not rig.injected
    assert rig.choices.stream("disk").draw_count == 0
    assert rig.kernel.now_ns == 0


def test_every_twin_field_is_a_field_of_a_plan() -> None:
    assert set(TWINS) == set(OF_PLANS)


@pytest.mark.ci
def test_every_injected_kind_is_listed() -> None:
    found: Counter[str] = Counter()
    for twin in TWINS.values():
        found += injected(twin, on=True)
    assert {kind for kind in found if not kind.startswith("crash")} <= set(FAULTS)


def test_every_row_of_the_fault_table_is_complete() -> None:
    assert FAULTS.keys() == {kind for kind in FaultKind if not kind.row.by_probes}
    for kind in FaultKind:
        assert all(kind.row[:6]), kind
        assert kind.row.group in GROUPS, kind


def test_a_transient_fault_kind_or_one_with_odds_names_a_plan_field() -> None:
    names = {field.name for plan in (FaultPlan, NetworkPlan) for field in fields(plan)}
    rows = [kind.row for kind in FaultKind]

    assert [row.name for row in rows if (row.passes or row.odds) and row.knob not in names] == []
    assert [row.name for row in rows if row.excuses and not (row.knob or row.follows)] == []
