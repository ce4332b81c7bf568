"""Store machine: the clock, tasks, files and settings for a plan."""

from dataclasses import asdict
from functools import lru_cache
from typing import cast

from ...faults.disk.changes import WORKING_DIRECTORY
from ...faults.disk.disk import Disk
from ...faults.disk.image import Image
from ...faults.simulation.simulation import WorldTrace
from ...sim.machine import Machine
from ...store.config import MIB, FlushDiskType, StoreConfig
from ...store.formats.columns import NativeCore
from ...store.formats.delay_level import parse_delay_levels
from ...store.network import Network
from ...store.services.transaction_check import TransactionConfig
from ...store.world import Files, Tasks, World
from .features import DirectoryPlan
from .plan import Plan
from .simulated_core import SimulatedCore

ROOT = "/store"
CONFIG = f"{ROOT}/config"
RESERVED_HOURS = 72
BODY_LIMIT, BODY_BYTES_MAX = "max_message_size", 4 * MIB
INDEX_SIZES = "max_hash_slot_num", "max_index_num"
DELAY_LEVELS = "1s 3s 20s"
DELAYS_MS = parse_delay_levels(DELAY_LEVELS)
CONSUMER_OFFSET_INTERVAL_MS = 1_000
TRANSACTIONS = TransactionConfig(transaction_timeout_ms=300, transaction_check_max=3, transaction_check_interval_ms=100)


def world_of(machine: Machine, disk: Disk, network: Network | None = None, *, core: NativeCore | None = None) -> World:
    tasks, files, trace = cast(Tasks, machine.tasks), cast(Files, disk.mount(machine)), disk.kernel.trace
    if isinstance(trace, WorldTrace):
        tasks, files = trace.watch(machine, disk, tasks, files)
    return World(machine.clock, tasks, files, network, core)


def core_of(plan: Plan) -> NativeCore | None:
    return cast(NativeCore, SimulatedCore(plan.batch_records)) if plan.batch_records else None


def initial_image_of(plan: Plan) -> Image | None:
    """Return the disk image before the first start, with a working directory for a relative root; None: empty disk."""
    return None if plan.directories.root.startswith("/") else Image({}, (WORKING_DIRECTORY,))


@lru_cache(maxsize=32)  # an exploration recovers many states of one plan
def config_of(plan: Plan) -> StoreConfig:
    return StoreConfig(
        plan.directories.root,
        store_path_commit_log=_log_paths(plan.directories),
        flush_disk_type=FlushDiskType.SYNC_FLUSH if plan.sync_flush else FlushDiskType.ASYNC_FLUSH,
        mapped_file_size_commit_log=plan.commit_log_bytes,
        mapped_file_size_consume_queue=plan.consume_queue_bytes,
        flush_consume_queue_thorough_interval_ms=plan.flush.thorough_interval_ms,
        flush_commit_log_thorough_interval_ms=plan.flush.thorough_interval_ms,
        sync_flush_timeout_ms=plan.flush.sync_timeout_ms,
        recover_whole_log=plan.recover_whole_log,
        max_message_size=plan.messages.limit_bytes or BODY_BYTES_MAX,
        message_index_enable=plan.index.slots > 0,
        max_hash_slot_num=max(plan.index.slots, 1),
        max_index_num=plan.index.entries,
        transient_store_pool_enable=plan.memory.transient_pool,
        transient_store_pool_size=2,
        warm_mapped_file_enable=plan.memory.warm_files,
        message_delay_level=DELAY_LEVELS,
        enable_lmq=plan.light_queues.chance > 0,
        max_lmq_consume_queue_num=plan.light_queues.queues_max,
        file_reserved_time_hours=RESERVED_HOURS,
        clean_file_forcibly_enable=plan.retention.deletes_segments and plan.retention.forcibly,
        delete_when=plan.retention.delete_when or "04",  # a run begins at 12:26 of its clock
        enable_multi_dispatch=plan.light_queues.chance > 0,
        **asdict(plan.settings),
    )


def _log_paths(directories: DirectoryPlan) -> str:
    if directories.log_directories == 1:
        return ""
    top = "/" if directories.root.startswith("/") else ""
    return ",".join(f"{top}disk-{number}/commitlog" for number in range(1, directories.log_directories + 1))
