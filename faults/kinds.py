"""Fault kinds: the table of all faults with cause, model, source and plan field.

This table determines `plan.without_transient_faults`, `plan.enabled_kinds`, the allowances of an oracle, and the
chances in a random mix of faults. Counters also count crashes by profile (`crash <profile>`) and by operation (`crash
<moment> <operation>`).
"""

from collections.abc import Sequence
from enum import Flag, StrEnum, auto
from functools import partial
from typing import Any, NamedTuple

GROUPS = ("crash", "sync", "write", "read", "space", "time", "rest", "machine", "network")
"""Groups of kinds, by the affected part: state after a crash, syncs, writes, reads, disk space, durations, stored data,
machine, network.
"""
_OSDI_2014 = "Pillai et al., All File Systems Are Not Created Equal, OSDI 2014"
_ATC_2020 = "Rebello et al., Can Applications Recover from fsync Failures?, USENIX ATC 2020"
_FAST_2013 = "Zheng et al., Understanding the Robustness of SSDs under Power Fault, FAST 2013"
_FAST_2008 = "Bairavasundaram et al., An Analysis of Data Corruption in the Storage Stack, FAST 2008"
_PAUSES = "Gunawi et al., Why Does the Cloud Stop Computing?, SoCC 2016; Lion et al., OSDI 2016, on warm-up of JVMs"
_PARTITIONS = "Alquraan et al., An Analysis of Network-Partitioning Failures in Cloud Systems, OSDI 2018"
_RELIABLE = "Bailis and Kingsbury, The Network is Reliable, ACM Queue 2014"
_TCP = "RFC 9293"


class Excuse(Flag):
    """Effects of a fault that an oracle must not report as bugs.

    An oracle maps each effect to its allowances.
    """

    NOTHING = 0
    SYNC_ERROR = auto()
    """A sync failed, so earlier writes may not be durable."""
    ERROR = auto()
    """Another operation failed, or a task ended with an error."""
    NO_SPACE = auto()
    DELAY = auto()
    PAUSE = auto()
    """A delay without a record, which may affect every operation while its fault is enabled."""
    LASTING = auto()
    """Combined with another value: the program cannot recover without a restart."""
    REVERTED = auto()
    """Combined with another value: the page cache has lost data that readers saw."""


class FaultRow(NamedTuple):
    """One row of the table."""

    group: str
    name: str
    """Name in counters and records."""
    meaning: str
    """The effect that a user observes, in one line."""
    cause: str
    """The event on a real system."""
    model: str
    source: str
    knob: str = ""
    """The field that enables this kind in a plan of this package, of `sim` or of a program."""
    follows: str = ""
    """The field (`knob`) of another kind, which causes this kind."""
    passes: bool = False
    """Whether the fault affects only one operation. A plan without transient faults excludes it."""
    excuses: Excuse = Excuse.NOTHING
    odds: Sequence[float] = ()
    """Values of `knob` in a random mix of faults. Empty: a mix has this kind only if the user names it."""
    by_scenarios: bool = False
    """Whether only scenarios inject the fault, at selected operations."""
    by_probes: bool = False
    """Whether only probes inject the fault, into programs on a real system."""


_crash, _sync, _write, _read, _space, _time, _rest, _machine = (partial(FaultRow, group) for group in GROUPS[:-1])
_network = partial(
    FaultRow, GROUPS[-1], passes=True
)  # all network kinds are transient, because a healed network only delays


class FaultKind(StrEnum):
    """One kind of fault. Its text is the name in its row."""

    row: FaultRow

    def __new__(cls, *columns: Any) -> "FaultKind":
        found = FaultRow(*columns)
        kind = str.__new__(cls, found.name)
        kind._value_, kind.row = found.name, found
        return kind

    __repr__ = str.__repr__  # digests and reports contain the plain text

    PAGE_KEPT = _crash(
        "page kept",
        "an unsynced page is durable in its latest version",
        "the kernel writes dirty pages back at any time and in any order",
        "each dirty page independently takes any version since its last sync, here the latest",
        _OSDI_2014,
    )
    PAGE_LOST = _crash(
        "page lost",
        "an unsynced page has the content of its last sync",
        "the power fails before the kernel has written the page back",
        "as page kept, with the version of the last sync",
        _OSDI_2014,
    )
    INTERMEDIATE_PAGE = _crash(
        "intermediate page",
        "an unsynced page has a version between its last sync and its last write",
        "the page was written back and changed afterwards",
        "as page kept, with any version in between",
        _OSDI_2014,
    )
    TORN_PAGE = _crash(
        "torn page",
        "a page has sectors of two different versions",
        "drives write whole sectors, and stop between two of them when the power fails",
        "any subset of a page's sectors has one version, the rest another, except on profiles with whole pages",
        "SQLite, Atomic Commit, on the atomicity of sectors; " + _OSDI_2014,
    )
    TORN_SECTOR = _crash(
        "torn sector",
        "the first bytes of a sector are newer than the rest",
        "the write of a sector is interrupted, and no checksum of the drive detects it",
        "in a torn page one sector is newer up to a drawn byte",
        f"{_FAST_2013} (shorn writes); PostgreSQL manual, full_page_writes",
    )._replace(knob="torn_bytes_chance")
    GARBAGE_SECTOR = _crash(
        "garbage sector",
        "a sector that was being written has neither its old nor its new content",
        "the power fails while a head or a flash cell is being written, or while a drive moves its mapping tables",
        "sectors that differ between a torn page's two versions hold zeros, 0xFF, random bytes or another sector",
        f"{_FAST_2013} (bit corruption, unserializable writes); SQLite, Powersafe Overwrite",
    )._replace(knob="garbage_chance")
    NAME_LOST = _crash(
        "name lost",
        "a file is missing because its directory was not synced",
        "a new file changes the directory, which has a durability of its own",
        "a metadata change is lost, alone or with all later ones, depending on the profile",
        f"fsync(2), NOTES; {_OSDI_2014}",
    )
    DIRECTORY_LOST = _crash(
        "directory lost",
        "a directory is missing with its content because its parent was not synced",
        "as name lost",
        "as name lost; the content of a lost directory is lost too",
        f"fsync(2), NOTES; {_OSDI_2014}",
    )
    SIZE_LOST = _crash(
        "size lost",
        "an extended and unsynced file has its old length",
        "the length is metadata, written before or after the data",
        "as name lost, but a sync of the file makes it durable; with delayed allocation independently of other changes",
        "XFS FAQ, binary NULLS in files after recovery; " + _OSDI_2014,
    )
    PARTIAL_EXTEND = _crash(
        "partial extend",
        "an extended file has only a part of its new length",
        "ext4 and btrfs log the length extent by extent; on file systems without allocation, the C library writes "
        "block by block",
        "if a growth by allocation is lost, a drawn part remains on profiles with steps; likewise after a crash "
        "during the allocation",
        "ext4_alloc_file_blocks and __btrfs_prealloc_file_range in Linux; posix_fallocate in the GNU C library",
    )
    TRUNCATION_UNDONE = _crash(
        "truncation undone",
        "a file that was truncated and rewritten has its old content",
        "the truncation is metadata and was not logged in time",
        "as size lost; the old content comes back",
        _OSDI_2014,
    )
    UNLINK_UNDONE = _crash(
        "unlink undone",
        "a removed file is back",
        "the removal changes the directory and was not logged in time",
        "as name lost",
        _OSDI_2014,
    )
    RENAME_UNDONE = _crash(
        "rename undone",
        "a renamed file has its old name",
        "the rename changes directories and was not logged in time; both names change at once",
        "as name lost, through the directory of the new name",
        f"rename(2); {_OSDI_2014}",
    )
    REMOVAL_UNDONE = _crash(
        "removal undone",
        "a removed directory is back",
        "the removal changes the parent directory and was not logged in time",
        "as name lost",
        _OSDI_2014,
    )
    SLOW_SYNC = _time(
        "slow sync",
        "a sync took far longer than usual",
        "drives collect garbage, remap sectors and throttle; queues fill up",
        "a log-uniform latency, from the normal one to slow_sync_ms_max",
        "Hao et al., The Tail at Store, FAST 2016",
    )._replace(knob="slow_sync_chance", passes=True, excuses=Excuse.DELAY, odds=(0.1,))
    FAILED_SYNC = _sync(
        "failed sync",
        "a sync failed once, and the kernel dropped the dirty pages",
        "a write-back error is reported once; the pages are clean afterwards, with their new or their old content",
        "EIO; failing_sync determines the remaining content, and a later sync succeeds",
        _ATC_2020,
    )._replace(knob="failed_sync_chance", passes=True, excuses=Excuse.SYNC_ERROR | Excuse.REVERTED, odds=(0.02,))
    LATE_SYNC_ERROR = _sync(
        "late sync error",
        "a sync failed and dropped data that an earlier, successful sync covered",
        "with data=journal a sync ends when the data is in the journal; the next one reports the error of the later "
        "copy",
        "under failing_sync ext4-data the next sync of the file reverts the pages of the affected sync",
        _ATC_2020,
    )._replace(follows="failed_sync_chance", excuses=Excuse.SYNC_ERROR)
    FAILED_WRITE_BACK = _sync(
        "failed write-back",
        "a sync failed because of an earlier write-back, possibly on behalf of another process",
        "a write-back error stays with the file until a sync of any part, through any descriptor, reports it",
        "EIO; at most one drawn dirty page of the file becomes clean without being durable",
        f"LWN 724307 (errseq_t, Linux 4.13) and LWN 752063; {_ATC_2020}",
    )._replace(
        knob="failed_write_back_chance", passes=True, excuses=Excuse.SYNC_ERROR | Excuse.REVERTED, odds=(0.02, 0.1)
    )
    FAILED_DIRECTORY_SYNC = _sync(
        "failed directory sync",
        "a sync of a directory failed, and its names are still not durable",
        "the directory's blocks or the journal could not be written",
        "EIO; no further change becomes durable",
        f"fsync(2), ERRORS; {_ATC_2020}",
    )._replace(knob="failed_directory_sync_chance", passes=True, excuses=Excuse.SYNC_ERROR, odds=(0.05,))
    STOPPED_FILE_SYSTEM = _sync(
        "stopped file system",
        "a sync failed because the journal could not be written, and the file system stopped",
        "ext4 and btrfs remount themselves read-only, xfs shuts down",
        "every later change raises EROFS; under xfs every operation raises EIO",
        f"{_ATC_2020}; ext4(5), errors=; xfs(5)",
    )._replace(knob="stopped_file_system_chance", excuses=Excuse.SYNC_ERROR, odds=(0.5,))
    LYING_SYNC = _sync(
        "lying sync",
        "a sync succeeded while its data was only in the drive's volatile cache",
        "drives, controllers and hypervisors acknowledge flushes without executing them",
        "the data survives process kills and os-crash; a power cut loses it until an honest sync of any file",
        f"{_FAST_2013}; Rajimwale et al., Coerced Cache Eviction and Discreet-Mode Journaling, DSN 2011",
    )._replace(knob="lying_sync_chance")
    SYNCED_DATA_LOST = _crash(
        "synced data lost",
        "a power cut lost data that a sync had acknowledged",
        "the drive's volatile cache is lost with the power",
        "counted per lost page, name or length that a lying sync covered",
        _FAST_2013,
    )._replace(follows="lying_sync_chance")
    DISK_FULL = _space(
        "disk full",
        "a file could not be created or extended because the disk was full",
        "no free block is left",
        "ENOSPC, or EDQUOT (space_error); a write through a descriptor first writes the part that fits",
        "write(2), posix_fallocate(3), ERRORS",
    )._replace(knob="capacity_bytes", excuses=Excuse.NO_SPACE)
    FAILED_WRITE = _write(
        "failed write",
        "a write through a descriptor failed without effect",
        "the page cannot be allocated, or cannot be read before a partial change",
        "EIO",
        "write(2), ERRORS",
    )._replace(knob="failed_write_chance", passes=True, excuses=Excuse.ERROR, odds=(0.05, 0.2))
    SHORT_WRITE = _write(
        "short write",
        "a write through a descriptor wrote only a prefix of its data",
        "a signal or lack of space ends a write early",
        "a drawn number of bytes, at least 1",
        "write(2), RETURN VALUE",
    )._replace(knob="short_write_chance", passes=True, odds=(0.3,))
    INTERRUPTED_CALL = _write(
        "interrupted call",
        "a call that changes or syncs a file was interrupted without effect",
        "a signal arrives while a call on a network or FUSE file system waits; local file systems ignore it",
        "EINTR without effect, at one write, truncation, allocation or sync of a probed program",
        "write(2), ftruncate(2), fallocate(2) and fsync(2), ERRORS; signal(7)",
    )._replace(by_probes=True)
    REFUSED_MLOCK = _machine(
        "refused mlock",
        "mlock of a mapped file failed",
        "RLIMIT_MEMLOCK, or too little memory",
        "ENOMEM",
        "mlock(2), ERRORS",
    )._replace(knob="refused_lock_chance", odds=(0.3, 0.7))
    FAILED_READ = _read(
        "failed read",
        "a small file could not be read",
        "the drive gives up on a sector, or the connection to it fails",
        "EIO, without data",
        "read(2), ERRORS",
    )._replace(knob="failed_read_chance", passes=True, excuses=Excuse.ERROR, odds=(0.1, 0.5))
    FAILED_MAP = _read(
        "failed map",
        "a file could not be opened for mapping",
        "the inode cannot be read",
        "EIO, before a file is created or extended",
        "open(2) and mmap(2), ERRORS; Prabhakaran et al., IRON File Systems, SOSP 2005",
    )._replace(knob="failed_map_chance", passes=True, excuses=Excuse.ERROR, odds=(0.05,))
    FAILED_PAGE_IN = _read(
        "failed page-in",
        "an evicted page of a mapped file could not be read back, once",
        "the system evicts clean pages at any time; the connection to the drive fails temporarily",
        "EIO at an access through a map to clean pages; a JVM raises InternalError there",
        "mmap(2), SIGBUS; madvise(2), MADV_POPULATE_READ; the JVM's unsafe accesses, InternalError",
    )._replace(knob="failed_page_in_chance", passes=True, excuses=Excuse.ERROR, odds=(0.05, 0.3))
    FAILED_LOOK_UP = _read(
        "failed look-up",
        "a directory could not be listed, or a path could not be looked up",
        "the directory's blocks cannot be read",
        "EIO",
        "readdir(3) and stat(2), ERRORS; Prabhakaran et al., IRON File Systems, SOSP 2005",
    )._replace(knob="failed_lookup_chance", passes=True, excuses=Excuse.ERROR, odds=(0.02, 0.1))
    FAILED_SPACE_QUERY = _read(
        "failed space query",
        "the used space of a disk could not be measured, and no data was affected",
        "the superblock cannot be read, or a network file system is out of reach for a moment",
        "EIO from statvfs",
        "statvfs(3), ERRORS",
    )._replace(knob="failed_space_query_chance", passes=True)
    FAILED_REMOVAL = _write(
        "failed removal",
        "a file could not be removed",
        "the directory's blocks cannot be written, or another program such as a backup or a scanner uses the file",
        "EIO from unlink, without effect",
        "unlink(2), ERRORS: EIO, EBUSY",
    )._replace(knob="failed_removal_chance", passes=True, excuses=Excuse.ERROR, odds=(0.3, 0.7))
    FAILED_RENAME = _write(
        "failed rename",
        "a file could not be renamed",
        "the directories' blocks cannot be written, or the new name needs a block and none is free",
        "EIO from rename, without effect",
        "rename(2), ERRORS: EIO, ENOSPC",
    )._replace(knob="failed_rename_chance", passes=True, excuses=Excuse.ERROR, odds=(0.1, 0.5))
    LATENT_SECTOR_ERROR = _read(
        "latent sector error",
        "a sector could not be read",
        "sectors fail unnoticed until they are read; an overwritten sector is remapped",
        "EIO through a descriptor; SIGBUS through a map, which kills the process",
        "Bairavasundaram et al., An Analysis of Latent Sector Errors in Disk Drives, SIGMETRICS 2007; mmap(2), SIGBUS",
    )._replace(knob="latent_sector_error_chance", excuses=Excuse.ERROR | Excuse.LASTING)
    FAILED_CREATION = _space(
        "failed creation",
        "a file could not be created because of lack of space",
        "no free inode or directory block is left",
        "ENOSPC",
        "open(2), ERRORS",
    )._replace(knob="failed_creation_chance", passes=True, excuses=Excuse.NO_SPACE, odds=(0.2,))
    FAILED_EXTEND = _space(
        "failed extend",
        "a file could not be extended because of lack of space",
        "no free block is left",
        "ENOSPC; the length is unchanged",
        "posix_fallocate(3), ERRORS",
    )._replace(knob="failed_extend_chance", passes=True, excuses=Excuse.NO_SPACE, odds=(0.1,))
    SIGBUS_ON_FULL_DISK = _space(
        "SIGBUS on full disk",
        "a process was killed by a store to a hole of a mapped file on a full disk",
        "blocks of a sparse file are allocated at the first store, which can only fail with SIGBUS",
        "extending a file allocates nothing; on a full disk a first store kills the process, and a pwrite raises "
        "ENOSPC",
        "mmap(2), SIGBUS; ftruncate(2); posix_fallocate(3)",
    )._replace(knob="sparse", excuses=Excuse.ERROR, odds=(True,))
    LOST_WRITE = _write(
        "lost write",
        "a synced page never reached the disk",
        "drives drop acknowledged writes",
        "the sync succeeds; the page cache is right, but the durable content of the page is unchanged",
        _FAST_2008,
    )._replace(knob="lost_write_chance")
    MISDIRECTED_WRITE = _write(
        "misdirected write",
        "a synced page was written to the place of another page",
        "drives write the right data to a wrong address",
        "as lost write, and another page of any file durably gets the data",
        _FAST_2008 + "; Krioukov et al., Parity Lost and Parity Regained, FAST 2008",
    )._replace(knob="misdirected_write_chance")
    SLOW_IO = _time(
        "slow IO",
        "a read, a map, a look-up or a write through a descriptor took far longer than usual",
        "retries, queues, throttling and garbage collection in the drive",
        "the task waits; log-uniform, 1 ms to slow_io_ms_max",
        "Hao et al., The Tail at Store, FAST 2016",
    )._replace(knob="slow_io_chance", passes=True, excuses=Excuse.DELAY, odds=(0.1,))
    STALLED_DEVICE = _time(
        "stalled device",
        "the whole device stopped for a while, and all requests waited",
        "firmware pauses, link resets, controllers that hang and recover",
        "syncs, and operations that slow IO can hit, wait for the end; log-uniform, 100 ms to stall_ms_max",
        "Gunawi et al., Fail-Slow at Scale, FAST 2018",
    )._replace(knob="stall_chance", passes=True, excuses=Excuse.DELAY, odds=(0.01,))
    SLOW_PAGE_IN = _time(
        "slow page-in",
        "an access to a mapped file waited for an evicted page",
        "the system evicts clean pages at any time, and reading one back takes the time of a disk read",
        "as failed page-in, but the task only waits; log-uniform, 1 ms to slow_io_ms_max",
        "Hao et al., The Tail at Store, FAST 2016; mincore(2)",
    )._replace(knob="slow_page_in_chance", passes=True, excuses=Excuse.DELAY, odds=(0.1,))
    BIT_ROT = _rest(
        "bit rot",
        "a stored bit flipped unnoticed",
        "media decay without detection by the drive",
        "a drawn bit of an image is flipped",
        _FAST_2008,
    )._replace(knob="bit_rot_chance")
    ZEROED_SECTOR = _rest(
        "zeroed sector",
        "a sector at rest turned to zeros",
        "mapping tables lose sectors, and trimmed sectors read as zeros",
        "a drawn sector of an image is zeroed",
        _FAST_2008 + "; " + _FAST_2013,
    )._replace(knob="zeroed_sector_chance")
    SWAPPED_PAGES = _rest(
        "swapped pages",
        "two pages of a file changed places",
        "a firmware bug swaps two entries of the mapping table",
        "two drawn pages of a file in an image are exchanged",
        _FAST_2008,
    )._replace(knob="swapped_pages_chance")
    PAUSED_TASK = _machine(
        "paused task",
        "a task paused while the others continued",
        "page faults, throttling, a preempted virtual CPU",
        "a task is parked at a scheduling point; log-uniform, 1 ms to paused_task_ms_max",
        _PAUSES,
    )._replace(knob="paused_task_chance", excuses=Excuse.PAUSE)
    PAUSED_MACHINE = _machine(
        "paused machine",
        "the whole machine paused while time passed",
        "garbage collection, migration of virtual machines, swapping hosts",
        "time passes at a scheduling point; log-uniform, 1 ms to paused_machine_ms_max",
        _PAUSES,
    )._replace(knob="paused_machine_chance", excuses=Excuse.PAUSE)
    LATE_TIMERS = _machine(
        "late timers",
        "tasks that waited for slightly different times woke together, so they raced",
        "kernels fire timers together to save wake-ups, and busy processors run tasks late",
        "timers due within timer_slack_us of the first fire at the time of the last",
        "prctl(2), PR_SET_TIMERSLACK; timer_slack_ns in proc(5)",
    )._replace(knob="timer_slack_us")
    CLOCK_STEP = _machine(
        "clock step",
        "the wall clock jumped forward or back",
        "time daemons step clocks with a large offset, and administrators set clocks",
        "wall_offset_ms changes by 1 ms to clock_step_ms_max, log-uniform",
        "settimeofday(2); RFC 5905; Sheehy, There is No Now, ACM Queue 2015",
    )._replace(knob="clock_step_chance", excuses=Excuse.PAUSE)
    STARVED_TASK = _machine(
        "starved task",
        "a ready task was not scheduled as long as any other task was ready",
        "schedulers are unfair to threads of low priority",
        "a policy skips one task for a drawn number of steps",
        "sched(7)",
    )._replace(knob="starved_steps_max", excuses=Excuse.PAUSE)
    POWER_CUT_AFTER_STOP = _crash(
        "power cut after a stop",
        "the power failed after a clean stop, before the system had written back its page cache",
        "a machine is switched off or fails right after the process; only synced data is durable",
        "unsynced data is drawn as in a crash of the life's profile; no process dies",
        f"fsync(2), NOTES; close(2), NOTES; {_OSDI_2014}",
    )._replace(by_scenarios=True)
    SECOND_START = _machine(
        "second start",
        "the store was started a second time while it ran",
        "an impatient operator, or a supervisor that assumes the store is down",
        "another process loads a store on the same directory during traffic",
        "spec of the store: the lock file",
    )._replace(knob="starts.second", by_scenarios=True)
    OUT_OF_MEMORY = _machine(
        "out of memory",
        "a background task ended with an unexpected error",
        "a process without memory, or a bug",
        "one of its waits raises MemoryError",
        "Gunawi et al., What Bugs Live in the Cloud?, SoCC 2014",
    )._replace(knob="memory.error_chance", excuses=Excuse.ERROR | Excuse.LASTING, by_scenarios=True)
    FORCED_BRANCH = _machine(
        "forced branch",
        "the program took a rare branch although its condition was false",
        "no event: a correct program may take the branch at any time, and tests seldom reach it",
        "each time the branch is not taken, it is forced with a chance",
        "Zhou et al., FoundationDB, SIGMOD 2021 (buggification)",
    )._replace(knob="forced_branch_chance", excuses=Excuse.DELAY, by_scenarios=True)
    CLIENT_DEATH = _machine(
        "client death",
        "a client's machine died in the middle of its work, and another one replaced it",
        "deployments, crashes and out-of-memory kills of the programs that use a service",
        "a client's machine dies during a request, or before it has acknowledged an answer",
        "Gunawi et al., Why Does the Cloud Stop Computing?, SoCC 2016",
    )._replace(knob="client_death_chance", by_scenarios=True)
    FLIPPED_BIT = _machine(
        "flipped bit",
        "a number without a checksum was passed on with one flipped bit",
        "a bit flips in memory, or in transit past TCP's checksum",
        "one bit of one number is flipped when a machine handles it",
        "Stone and Partridge, When the CRC and TCP Checksum Disagree, SIGCOMM 2000",
    )._replace(knob="flipped_bit_chance", by_scenarios=True)
    STALE_BLOCKS = _crash(
        "stale blocks",
        "unwritten sectors of the log hold bytes of an older segment",
        "some file systems do not zero new blocks, so reads return their previous content",
        "bytes of an older segment are put after the end of the log in the image",
        "ext4(5), data=writeback",
    )._replace(by_scenarios=True)
    WRONG_FILE_SIZE = _rest(
        "wrong file size",
        "a segment before the last one, or a queue's file, was too short",
        "the directory was copied or restored incompletely",
        "a segment other than the last, or any file of a queue, is cut in the image",
        "general operating experience",
    )._replace(by_scenarios=True)
    FULL_AT_START = _rest(
        "full disk at a start",
        "the disk had no space for the files of queues at a restart",
        "another program filled the disk, and the queues were deleted to be rebuilt",
        "queues and index are removed from the image, and the disk stays full until the store runs",
        "general operating experience",
    )._replace(by_scenarios=True)
    MISSING_SEGMENT = _rest(
        "missing segment",
        "the oldest segments were missing, or one between two others with expired segments before it",
        "an operator removes the oldest files by hand, or a backup is restored without one of its files",
        "segments are removed from the image, and segments before a gap get older modification times",
        "general operating experience",
    )._replace(by_scenarios=True)
    STRAY_FILE = _rest(
        "stray file",
        "a foreign file was among the store's files",
        "mount points have a `lost+found`, people leave notes and copies, and tools leave marker files",
        "a file is added to the image of a stopped store; a start must neither fail because of it nor remove it",
        "general operating experience; ext4(5), lost+found",
    )._replace(by_scenarios=True)
    DAMAGED_CHECKPOINT = _rest(
        "damaged checkpoint",
        "the checkpoint was truncated, or held a negative time, at a restart",
        "drives lose sectors, and directories are copied or restored incompletely",
        "the file is truncated, or eight of its bytes are set, in the image; the log has the same information",
        "general operating experience",
    )._replace(by_scenarios=True)
    SEGMENT_AFTER_GAP = _rest(
        "segment after a gap",
        "an empty segment of the log came after a missing or an unfinished one at a restart",
        "a store may make segments ahead and never sync their directory, so a power cut can lose the earlier one",
        "empty segments are added to the image of a stopped store; the next start removes them",
        "Pillai et al., All File Systems Are Not Created Equal, OSDI 2014 (order of directory operations)",
    )._replace(by_scenarios=True)
    DUPLICATE_SEGMENT = _rest(
        "duplicate segment",
        "a segment of the log had a second file without data, in another directory, at a restart",
        "a crash interrupts the creation of a file, and a later process creates the file in another directory",
        "a file of zeros is added to the image of a stopped store; the next start removes it",
        "Pillai et al., All File Systems Are Not Created Equal, OSDI 2014 (order of directory operations)",
    )._replace(by_scenarios=True)
    LOST_SECTOR = _rest(
        "lost sector",
        "a sector at the end of the log was zeroed while the store was off",
        "drives lose sectors, and return zeros for lost or unmapped ones",
        "a sector of the image is zeroed",
        "Bairavasundaram et al., An Analysis of Latent Sector Errors in Disk Drives, SIGMETRICS 2007",
    )._replace(by_scenarios=True)
    DAMAGED_RECORD = _rest(
        "damaged record",
        "a bit of a record in the middle of a log was flipped at a restart",
        "data decays, and drives do not always detect it",
        "a bit of a record's content, magic or size is flipped in the image, and entries that point to the record may "
        "be removed",
        _FAST_2008,
    )._replace(by_scenarios=True)
    FLIPPED_NUMBER = _rest(
        "flipped number",
        "a bit of a record's sequence number, which no checksum covers, was flipped at a restart",
        "data decays, and drives do not always detect it",
        "a bit of the field is flipped in the image",
        _FAST_2008,
    )._replace(by_scenarios=True)
    SKIPPED_NUMBERS = _rest(
        "skipped numbers",
        "sequence numbers of records continued after a gap at a restart",
        "another version ran in between, and counted entries that a crash had left empty",
        "zero entries are added before the start, and numbers continue after them",
        "spec of the store: numbers that a real version continues after an empty file",
    )._replace(knob="starts.skipped_numbers_max", by_scenarios=True)
    SPLIT_DELIVERY = _network(
        "split delivery",
        "data that was sent at once arrived in two pieces",
        "a stream has no message boundaries: segments, buffers and readers split it anywhere",
        "after a drawn number of bytes, the rest arrives with a delay of its own",
        f"{_TCP}, section 3.8",
    )._replace(knob="split_chance")
    LATE_DELIVERY = _network(
        "late delivery",
        "a transmission arrived far later than usual, and so did the rest of its stream",
        "queues in switches fill up, packets are lost and retransmitted",
        "the delay grows by a log-uniform draw, up to late_ms_max",
        f"RFC 6298; {_RELIABLE}",
    )._replace(knob="late_chance")
    PARTITION = _network(
        "partition",
        "two hosts could not reach each other for a while",
        "switches fail, cables are pulled, firewall rules are wrong",
        "from a drawn transmission on and for a drawn time, data in either direction arrives only afterwards, with "
        "the sender's next retry; new connections fail",
        _PARTITIONS,
    )._replace(knob="partition_chance")
    ONE_WAY_LINK = _network(
        "one-way link",
        "one host could not reach another for a while, but the reverse direction worked",
        "a broken transceiver or a wrong route affects one direction only",
        "as partition, for one direction",
        f"{_PARTITIONS} (simplex partitions)",
    )._replace(knob="one_way_chance")
    SLOW_LINK = _network(
        "slow link",
        "a link had a low bandwidth for a while",
        "saturated uplinks, links with a reduced rate, fail-slow hardware",
        "data queues after earlier data at slow_link_bytes_per_s, for a drawn time",
        "Gunawi et al., Fail-Slow at Scale, FAST 2018",
    )._replace(knob="slow_link_chance")
    BROKEN_CONNECTION = _network(
        "broken connection",
        "a connection was reset while both ends were alive",
        "load balancers, firewalls and address translators drop connections",
        "both ends see a reset, each after a delay; data in flight is lost",
        f"{_TCP}, section 3.5.2; {_RELIABLE}",
    )._replace(knob="broken_chance")
    HALF_OPEN_CONNECTION = _network(
        "half-open connection",
        "a connection stopped working without notice to either end",
        "an address translator forgets an idle connection and drops its packets",
        "data sent afterwards never arrives; senders fill their buffers, and see an error after 924 s",
        f"{_TCP}, section 3.5.1; RFC 5382",
    )._replace(knob="half_open_chance")
    REFUSED_CONNECTION = _network(
        "refused connection",
        "a connection to a listening port was refused",
        "a listener that is restarting, a full accept queue, or a firewall",
        "ConnectionRefusedError after a round trip",
        f"{_TCP}, section 3.10.7.1",
    )._replace(knob="refused_chance")
    FAILED_ACCEPT = _network(
        "failed accept",
        "a connection could not be accepted, and was closed",
        "the process has no free descriptor, or the system no memory",
        "OSError (EMFILE) from accept; the peer, already connected, reads the end of the stream",
        "accept(2), ERRORS: EMFILE, ENOMEM",
    )._replace(knob="failed_accept_chance")
    FAILED_POLL = _network(
        "failed poll",
        "a wait for many connections failed, and the task that serves them ended",
        "a library closes a descriptor twice, after its number was reused for the poller",
        "OSError (EBADF) from the poller's wait",
        "epoll_wait(2), ERRORS: EBADF",
    )._replace(knob="failed_poll_chance")
    SILENT_DEATH = _network(
        "silent death",
        "a machine died without any notice to its peers",
        "the power fails or the kernel panics, so no process closes the connections",
        "the last data in flight may be lost; peers see no error until another machine of the same name answers with "
        "resets; at every power cut that the network knows of, otherwise by chance",
        f"{_TCP}, section 3.5.1",
    )._replace(knob="silent_death_chance")
    RESET_AT_DEATH = _network(
        "reset at death",
        "a process died, and its connections were reset instead of closed",
        "the kernel resets a connection of a dead process if it has unread data",
        "peers see a reset; data in flight is lost",
        "RFC 2525, section 2.17; RFC 1122, section 4.2.2.13",
    )._replace(knob="reset_at_death_chance")


FAULTS: dict[str, str] = {kind.value: kind.row.meaning for kind in FaultKind if not kind.row.by_probes}
"""Meanings, by name, of the faults that a simulation can inject."""
