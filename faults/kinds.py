"""Fault kinds: one row per fault with its cause, model, source, switch, and consequences.

Derived from this table: `plan.healed`, `plan.enabled_kinds`, an oracle's allowances, and the odds in a mix of faults.
Counters also have `crash <profile>` for each end of a life, and `crash <moment> <operation>` for the operation it hit.
"""

from collections.abc import Sequence
from enum import Flag, StrEnum, auto
from functools import partial
from typing import Any, NamedTuple

GROUPS = ("crash", "sync", "write", "read", "space", "time", "rest", "machine", "network")
"""The target of a kind: the state after a crash, syncs, writes, reads, disk space, durations, data at rest, the machine
as a whole, the network."""
_OSDI_2014 = "Pillai et al., All File Systems Are Not Created Equal, OSDI 2014"
_ATC_2020 = "Rebello et al., Can Applications Recover from fsync Failures?, USENIX ATC 2020"
_FAST_2013 = "Zheng et al., Understanding the Robustness of SSDs under Power Fault, FAST 2013"
_FAST_2008 = "Bairavasundaram et al., An Analysis of Data Corruption in the Storage Stack, FAST 2008"
_PAUSES = "Gunawi et al., Why Does the Cloud Stop Computing?, SoCC 2016; Lion et al., OSDI 2016, on warm-up of JVMs"
_PARTITIONS = "Alquraan et al., An Analysis of Network-Partitioning Failures in Cloud Systems, OSDI 2018"
_RELIABLE = "Bailis and Kingsbury, The Network is Reliable, ACM Queue 2014"
_TCP = "RFC 9293"


class Excuse(Flag):
    """Correct reactions of a program to a fault that was injected. An oracle maps each to its allowances."""

    NOTHING = 0
    SYNC_ERROR = auto()
    """A sync failed, so data written before it may not be durable."""
    ERROR = auto()
    """Another operation failed, or a task died."""
    NO_SPACE = auto()
    DELAY = auto()
    PAUSE = auto()
    """A delay that leaves no record at the delayed operation: it excuses wherever it is enabled."""
    LASTING = auto()
    """Added to another one: no program recovers without a restart."""
    REVERTED = auto()
    """Added to another one: data that readers saw in the page cache is gone."""


class FaultRow(NamedTuple):
    """One row of the table: everything that is known of one kind of fault."""

    group: str
    name: str
    """Counted and recorded under this name."""
    meaning: str
    """The observation after an injection, in a line."""
    cause: str
    """The real event."""
    model: str
    source: str
    knob: str = ""
    """The field that enables it: of a plan in this package or in `sim`, or of a program's own plan."""
    follows: str = ""
    """The knob of another kind, if this one happens only after that one."""
    passes: bool = False
    """Whether it ends when the plan heals: one operation meets it and the next may not."""
    excuses: Excuse = Excuse.NOTHING
    odds: Sequence[float] = ()
    """Values of the knob for a mix of many faults; none: mixes leave it out unless they name it."""
    by_scenarios: bool = False
    """Whether only scenarios inject it, at a place that they choose."""
    by_probes: bool = False
    """Whether only probes inject it, into programs that call a real system."""


_crash, _sync, _write, _read, _space, _time, _rest, _machine = (partial(FaultRow, group) for group in GROUPS[:-1])
_network = partial(FaultRow, GROUPS[-1], passes=True)  # a healed network only delays


class FaultKind(StrEnum):
    """One kind of fault. Its text is the name in its row."""

    row: FaultRow

    def __new__(cls, *columns: Any) -> "FaultKind":
        """Make a row of the table a member."""
        found = FaultRow(*columns)
        kind = str.__new__(cls, found.name)
        kind._value_, kind.row = found.name, found
        return kind

    __repr__ = str.__repr__  # it stands in digests and reports as the text that it is

    PAGE_KEPT = _crash(
        "page kept",
        "a page that was not synced is durable all the same, as it was last written",
        "the kernel writes dirty pages back whenever it likes, in any order",
        "each dirty page is, on its own, at any moment since its last sync, here the last one",
        _OSDI_2014,
    )
    PAGE_LOST = _crash(
        "page lost",
        "a page that was not synced is as its last sync left it",
        "the power goes before the kernel has written the page back",
        "as page kept, at the first moment",
        _OSDI_2014,
    )
    PAGE_AT_A_MIDDLE_MOMENT = _crash(
        "page at a middle moment",
        "a page that was not synced is as it was at some moment in between",
        "the page was written back and has been changed since",
        "as page kept, at any other moment",
        _OSDI_2014,
    )
    TORN_PAGE = _crash(
        "torn page",
        "sectors of one page are from two different moments",
        "drives write sectors whole, and stop between two of them when the power goes",
        "any subset of a page's sectors is of one moment, the rest of another, but where a profile's pages are whole",
        "SQLite, Atomic Commit, on the atomicity of sectors; " + _OSDI_2014,
    )
    TORN_SECTOR = _crash(
        "torn sector",
        "the first bytes of one sector are from a newer moment than its other bytes",
        "a sector's write is cut short, and no checksum of the drive shows it",
        "in a torn page one sector is newer up to a drawn byte",
        f"{_FAST_2013} (shorn writes); PostgreSQL manual, full_page_writes",
    )._replace(knob="torn_bytes_chance")
    GARBAGE_SECTOR = _crash(
        "garbage sector",
        "a sector that was being written holds neither the old nor the new bytes",
        "power falls while a head or a flash cell is being written, or while a drive moves its mapping tables",
        "sectors in which a torn page's two moments differ hold zeros, 0xFF, chance or another sector",
        f"{_FAST_2013} (bit corruption, unserializable writes); SQLite, Powersafe Overwrite",
    )._replace(knob="garbage_chance")
    NAME_LOST = _crash(
        "name lost",
        "a file whose directory was not synced is gone",
        "creation changes the directory, which has a durability of its own",
        "a change of metadata is lost, alone or with all behind it, as the profile says",
        f"fsync(2), NOTES; {_OSDI_2014}",
    )
    DIRECTORY_LOST = _crash(
        "directory lost",
        "a directory whose parent was not synced is gone, with all that is in it",
        "as name lost",
        "as name lost; what a lost directory held has no name either",
        f"fsync(2), NOTES; {_OSDI_2014}",
    )
    SIZE_LOST = _crash(
        "size lost",
        "a file that was extended and not synced has its old length",
        "the length is metadata, written later than the data or earlier",
        "as name lost, by the file's own sync; with delayed allocation each on its own",
        "XFS FAQ, binary NULLS in files after recovery; " + _OSDI_2014,
    )
    PARTIAL_EXTEND = _crash(
        "partial extend",
        "a file that was to be extended has some of its new length, and not all of it",
        "ext4 and btrfs log the length extent by extent; where no file system allocates, the C library writes "
        "block by block",
        "a growth by allocation that is lost leaves a drawn part, where the profile has steps; so does a crash in it",
        "ext4_alloc_file_blocks and __btrfs_prealloc_file_range in Linux; posix_fallocate in the GNU C library",
    )
    EMPTYING_UNDONE = _crash(
        "emptying undone",
        "a file that was emptied and written anew has its old content",
        "truncation is metadata and was not logged in time",
        "as size lost; the old content comes back",
        _OSDI_2014,
    )
    UNLINK_UNDONE = _crash(
        "unlink undone",
        "a file that was removed is back",
        "removal changes the directory, which was not logged in time",
        "as name lost",
        _OSDI_2014,
    )
    RENAME_UNDONE = _crash(
        "rename undone",
        "a file that was renamed has its old name",
        "as unlink undone; both names change at once",
        "as name lost, by the directory of the new name",
        f"rename(2); {_OSDI_2014}",
    )
    REMOVAL_UNDONE = _crash(
        "removal undone",
        "a directory that was removed is back",
        "as unlink undone",
        "as name lost",
        _OSDI_2014,
    )
    SLOW_SYNC = _time(
        "slow sync",
        "a sync took far longer than its like",
        "drives collect garbage, remap and throttle; queues fill up",
        "a log-uniform latency, from that of any sync to slow_sync_ms_max",
        "Hao et al., The Tail at Store, FAST 2016",
    )._replace(knob="slow_sync_chance", passes=True, excuses=Excuse.DELAY, odds=(0.1,))
    FAILED_SYNC = _sync(
        "failed sync",
        "a sync failed once, and the kernel forgot the pages it was to write",
        "a write-back error is reported once; the pages are clean, with new bytes or with the old ones again",
        "EIO; what is left is as failing_sync says, a later sync succeeds",
        _ATC_2020,
    )._replace(knob="failed_sync_chance", passes=True, excuses=Excuse.SYNC_ERROR | Excuse.REVERTED, odds=(0.02,))
    LATE_SYNC_ERROR = _sync(
        "late sync error",
        "a sync failed for what an earlier one had answered OK, and took that from the disk",
        "with data=journal a sync ends when the journal has the data; the next one reports the error of their copy",
        "under failing_sync ext4-data the pages of a struck sync are taken back at the file's next one",
        _ATC_2020,
    )._replace(follows="failed_sync_chance", excuses=Excuse.SYNC_ERROR)
    FAILED_WRITE_BACK = _sync(
        "failed write-back",
        "a sync failed for a page that the kernel had failed to write back before, maybe under another process",
        "an error of write-back stays with the file until a sync of any part of it, by whoever has it open, reports it",
        "EIO; one drawn dirty page of the file, or none, is clean and not durable",
        f"LWN 724307 (errseq_t, Linux 4.13) and LWN 752063; {_ATC_2020}",
    )._replace(
        knob="failed_write_back_chance", passes=True, excuses=Excuse.SYNC_ERROR | Excuse.REVERTED, odds=(0.02, 0.1)
    )
    FAILED_DIRECTORY_SYNC = _sync(
        "failed directory sync",
        "a sync of a directory failed, and its names are as unsure as before",
        "the directory's blocks or the journal could not be written",
        "EIO, and nothing is durable that was not before",
        f"fsync(2), ERRORS; {_ATC_2020}",
    )._replace(knob="failed_directory_sync_chance", passes=True, excuses=Excuse.SYNC_ERROR, odds=(0.05,))
    STOPPED_FILE_SYSTEM = _sync(
        "stopped file system",
        "a sync failed because the journal could not be written, and the file system stopped",
        "ext4 and btrfs remount themselves read-only, xfs shuts down",
        "every later change raises EROFS, under xfs every operation EIO",
        f"{_ATC_2020}; ext4(5), errors=; xfs(5)",
    )._replace(knob="stopped_file_system_chance", excuses=Excuse.SYNC_ERROR, odds=(0.5,))
    LYING_SYNC = _sync(
        "lying sync",
        "a sync was answered OK while what it covers was in the drive's volatile cache only",
        "drives, controllers and hypervisors acknowledge flushes that they have not carried out",
        "as unsure as before until an honest sync of anything, but for kills and os-crash",
        f"{_FAST_2013}; Rajimwale et al., Coerced Cache Eviction and Discreet-Mode Journaling, DSN 2011",
    )._replace(knob="lying_sync_chance")
    LIE_EXPOSED = _crash(
        "lie exposed",
        "a power cut took something that a sync had acknowledged",
        "the drive's volatile cache is lost with the power",
        "counted by page and by name or length, where a lying sync had answered",
        _FAST_2013,
    )._replace(follows="lying_sync_chance")
    DISK_FULL = _space(
        "disk full",
        "a file could not be made or grow, for the disk holds no more",
        "no block is left",
        "ENOSPC; a write through a descriptor first takes what fits",
        "write(2), posix_fallocate(3), ERRORS",
    )._replace(knob="capacity_bytes", excuses=Excuse.NO_SPACE)
    FAILED_WRITE = _write(
        "failed write",
        "a write through a descriptor failed before it wrote anything",
        "the page cannot be had or read before it is changed in part",
        "EIO",
        "write(2), ERRORS",
    )._replace(knob="failed_write_chance", passes=True, excuses=Excuse.ERROR, odds=(0.05, 0.2))
    SHORT_WRITE = _write(
        "short write",
        "a write through a descriptor wrote only some of its first bytes",
        "a signal or want of space ends a write half way",
        "a drawn number of bytes, 1 at least",
        "write(2), RETURN VALUE",
    )._replace(knob="short_write_chance", passes=True, odds=(0.3,))
    INTERRUPTED_CALL = _write(
        "interrupted call",
        "a call that changes a file or syncs it was interrupted before it did anything",
        "a signal arrives while a network's or a user's file system makes the call wait; local ones wait on",
        "EINTR, and nothing is done: at one write, truncation, allocation or sync of a probed program",
        "write(2), ftruncate(2), fallocate(2) and fsync(2), ERRORS; signal(7)",
    )._replace(by_probes=True)
    REFUSED_MLOCK = _machine(
        "refused mlock",
        "the system would not keep a mapped file in memory",
        "RLIMIT_MEMLOCK, or too little memory",
        "ENOMEM",
        "mlock(2), ERRORS",
    )._replace(knob="refused_lock_chance", odds=(0.3, 0.7))
    FAILED_READ = _read(
        "failed read",
        "a small file could not be read",
        "the drive gives up on a sector, or the way to it fails",
        "EIO, nothing is read",
        "read(2), ERRORS",
    )._replace(knob="failed_read_chance", passes=True, excuses=Excuse.ERROR, odds=(0.1, 0.5))
    FAILED_MAP = _read(
        "failed map",
        "a file could not be opened to be mapped",
        "the inode cannot be read",
        "EIO, before anything is made or grows",
        "open(2) and mmap(2), ERRORS; Prabhakaran et al., IRON File Systems, SOSP 2005",
    )._replace(knob="failed_map_chance", passes=True, excuses=Excuse.ERROR, odds=(0.05,))
    FAILED_PAGE_IN = _read(
        "failed page-in",
        "a page of a mapped file had left the memory, and could not be read again this once",
        "the system lets clean pages go whenever it likes; the way to the drive fails, and is mended",
        "EIO of a look through a map at clean pages: a JVM raises InternalError there",
        "mmap(2), SIGBUS; madvise(2), MADV_POPULATE_READ; the JVM's unsafe accesses, InternalError",
    )._replace(knob="failed_page_in_chance", passes=True, excuses=Excuse.ERROR, odds=(0.05, 0.3))
    FAILED_LOOK_UP = _read(
        "failed look-up",
        "a directory could not be listed, or a path not be looked up",
        "the directory's blocks cannot be read",
        "EIO",
        "readdir(3) and stat(2), ERRORS; Prabhakaran et al., IRON File Systems, SOSP 2005",
    )._replace(knob="failed_lookup_chance", passes=True, excuses=Excuse.ERROR, odds=(0.02, 0.1))
    FAILED_REMOVAL = _write(
        "failed removal",
        "a name could not be removed, and is still there",
        "the directory's blocks cannot be written, or something else holds the file, such as a backup or a scanner",
        "EIO of an unlink, before it has any effect",
        "unlink(2), ERRORS: EIO, EBUSY",
    )._replace(knob="failed_removal_chance", passes=True, excuses=Excuse.ERROR, odds=(0.3, 0.7))
    FAILED_RENAME = _write(
        "failed rename",
        "a file could not be given another name, and has the one that it had",
        "the directories' blocks cannot be written, or the new name needs one and none is left",
        "EIO of a rename, before it has any effect",
        "rename(2), ERRORS: EIO, ENOSPC",
    )._replace(knob="failed_rename_chance", passes=True, excuses=Excuse.ERROR, odds=(0.1, 0.5))
    LATENT_SECTOR_ERROR = _read(
        "latent sector error",
        "somebody needed a sector that could not be read",
        "sectors go bad unnoticed, until they are read; one that is overwritten is remapped",
        "EIO through a descriptor, SIGBUS and the process's death through a map",
        "Bairavasundaram et al., An Analysis of Latent Sector Errors in Disk Drives, SIGMETRICS 2007; mmap(2), SIGBUS",
    )._replace(knob="latent_sector_error_chance", excuses=Excuse.ERROR | Excuse.LASTING)
    FAILED_CREATION = _space(
        "failed creation",
        "a file could not be made, for want of space",
        "no inode or no directory block is left",
        "ENOSPC",
        "open(2), ERRORS",
    )._replace(knob="failed_creation_chance", passes=True, excuses=Excuse.NO_SPACE, odds=(0.2,))
    FAILED_EXTEND = _space(
        "failed extend",
        "a file could not be made longer, for want of space",
        "no block is left",
        "ENOSPC, and the file is as long as before",
        "posix_fallocate(3), ERRORS",
    )._replace(knob="failed_extend_chance", passes=True, excuses=Excuse.NO_SPACE, odds=(0.1,))
    HOLE_WITHOUT_ROOM = _space(
        "hole without room",
        "a process died of storing into a page that had no block, and got none",
        "blocks of a sparse file are given out at the first store, which has no way to fail but SIGBUS",
        "a first store without room kills the process, a pwrite raises ENOSPC: growing allocates nothing",
        "mmap(2), SIGBUS; ftruncate(2); posix_fallocate(3)",
    )._replace(knob="sparse", excuses=Excuse.ERROR, odds=(True,))
    LOST_WRITE = _write(
        "lost write",
        "a page that a sync had written never reached the disk",
        "drives drop writes that they have acknowledged",
        "the sync succeeds; what is durable of the page is as before, and the page cache is right",
        _FAST_2008,
    )._replace(knob="lost_write_chance")
    MISDIRECTED_WRITE = _write(
        "misdirected write",
        "a page that a sync had written arrived at another page's place",
        "drives write right data to a wrong address",
        "as lost write, and another page of any file durably has the data",
        _FAST_2008 + "; Krioukov et al., Parity Lost and Parity Regained, FAST 2008",
    )._replace(knob="misdirected_write_chance")
    SLOW_IO = _time(
        "slow IO",
        "a read, a map, a look-up or a write through a descriptor took far longer than its like",
        "retries, queues, throttling and garbage collection in the drive",
        "the task waits; log-uniform, 1 ms to slow_io_ms_max",
        "Hao et al., The Tail at Store, FAST 2016",
    )._replace(knob="slow_io_chance", passes=True, excuses=Excuse.DELAY, odds=(0.1,))
    STALLED_DEVICE = _time(
        "stalled device",
        "the whole device stood still, and all who came meanwhile waited",
        "firmware pauses, resets of the link, controllers that hang and come back",
        "syncs and what slow IO strikes wait for its end; log-uniform, 100 ms to stall_ms_max",
        "Gunawi et al., Fail-Slow at Scale, FAST 2018",
    )._replace(knob="stall_chance", passes=True, excuses=Excuse.DELAY, odds=(0.01,))
    SLOW_PAGE_IN = _time(
        "slow page-in",
        "who looked at a page of a mapped file waited until it was in memory again",
        "the system lets clean pages go whenever it likes, and reading one again takes a drive's time",
        "as failed page-in, and the task waits; log-uniform, 1 ms to slow_io_ms_max",
        "Hao et al., The Tail at Store, FAST 2016; mincore(2)",
    )._replace(knob="slow_page_in_chance", passes=True, excuses=Excuse.DELAY, odds=(0.1,))
    BIT_ROT = _rest(
        "bit rot",
        "a bit changed while nobody looked",
        "media decay, and drives that do not notice",
        "a drawn bit of an image is another one",
        _FAST_2008,
    )._replace(knob="bit_rot_chance")
    ZEROED_SECTOR = _rest(
        "zeroed sector",
        "a sector held zeros after a while",
        "mapping tables lose sectors, and trimmed ones read as zeros",
        "a drawn sector of an image is zeroed",
        _FAST_2008 + "; " + _FAST_2013,
    )._replace(knob="zeroed_sector_chance")
    SWAPPED_PAGES = _rest(
        "swapped pages",
        "two pages of a file had changed places",
        "mapping tables that point to each other's page after a firmware's mistake",
        "two drawn pages of a file of an image are exchanged",
        _FAST_2008,
    )._replace(knob="swapped_pages_chance")
    PAUSED_TASK = _machine(
        "paused task",
        "a task stood still while the others ran on",
        "page faults, throttling, a preempted virtual processor",
        "a task is parked at a scheduling point; log-uniform, 1 ms to paused_task_ms_max",
        _PAUSES,
    )._replace(knob="paused_task_chance", excuses=Excuse.PAUSE)
    PAUSED_MACHINE = _machine(
        "paused machine",
        "nothing ran for a while, and time went on",
        "garbage collection, migration of virtual machines, hosts that swap",
        "time passes at a scheduling point; log-uniform, 1 ms to paused_machine_ms_max",
        _PAUSES,
    )._replace(knob="paused_machine_chance", excuses=Excuse.PAUSE)
    CLOCK_STEP = _machine(
        "clock step",
        "the wall clock jumped, ahead or back",
        "time daemons step clocks that are too far off, administrators set them",
        "wall_offset_ms changes by 1 ms to clock_step_ms_max, log-uniform",
        "settimeofday(2); RFC 5905; Sheehy, There is No Now, ACM Queue 2015",
    )._replace(knob="clock_step_chance", excuses=Excuse.PAUSE)
    STARVED_TASK = _machine(
        "starved task",
        "a task that could have run was passed over for as long as any other could",
        "schedulers are not fair to threads of low priority",
        "a policy leaves one task out for a drawn number of steps",
        "sched(7)",
    )._replace(knob="starved_steps_max", excuses=Excuse.PAUSE)
    POWER_CUT_AFTER_STOP = _crash(
        "power cut after a stop",
        "the power went when a store had been stopped cleanly, and before the system had written back its page cache",
        "a machine is switched off, or fails, right behind the process: what a stop has not synced is not durable",
        "what no sync covers is drawn as in a crash of the life's profile, and nothing has died",
        f"fsync(2), NOTES; close(2), NOTES; {_OSDI_2014}",
    )._replace(by_scenarios=True)
    SECOND_START = _machine(
        "second start",
        "somebody started the store again while it ran",
        "an impatient operator, a supervisor that has lost track",
        "another process loads a store on the same directory during traffic",
        "spec of the store: the lock file",
    )._replace(knob="starts.second", by_scenarios=True)
    OUT_OF_MEMORY = _machine(
        "out of memory",
        "a task in the background ended of an error that it did not foresee",
        "a process that has no memory left, a bug: what nobody thought of",
        "one of its waits raises MemoryError",
        "Gunawi et al., What Bugs Live in the Cloud?, SoCC 2014",
    )._replace(knob="memory.error_chance", excuses=Excuse.ERROR | Excuse.LASTING, by_scenarios=True)
    FORCED_BRANCH = _machine(
        "forced branch",
        "the program took a rare branch although its condition did not hold",
        "no event: a correct program may take the branch at any time, and tests seldom reach it",
        "each time the branch would not be taken, it is taken with a chance",
        "Zhou et al., FoundationDB, SIGMOD 2021 (buggification)",
    )._replace(knob="forced_branch_chance", excuses=Excuse.DELAY, by_scenarios=True)
    CLIENT_DEATH = _machine(
        "client death",
        "a client's machine died in the midst of what it did, and another came in its place",
        "deployments, crashes and out-of-memory kills of the programs that use a service",
        "a client's machine dies while it asks, or before it has said that it is done with an answer",
        "Gunawi et al., Why Does the Cloud Stop Computing?, SoCC 2016",
    )._replace(knob="client_death_chance", by_scenarios=True)
    FLIPPED_BIT = _machine(
        "flipped bit",
        "a number that no checksum covers was handed on with one bit wrong",
        "a bit changed on its way, past TCP's checksum, or in memory",
        "one bit of one number is turned over as a machine handles it",
        "Stone and Partridge, When the CRC and TCP Checksum Disagree, SIGCOMM 2000",
    )._replace(knob="flipped_bit_chance", by_scenarios=True)
    OLD_BLOCKS = _crash(
        "old blocks",
        "sectors of the log that were never written hold what an older segment had there",
        "blocks given to a file show what they held before, on file systems that do not zero them first",
        "behind the log's end an older segment's bytes are laid into the image",
        "ext4(5), data=writeback",
    )._replace(by_scenarios=True)
    ODD_SIZE = _rest(
        "odd size",
        "a segment in front of others, or a queue's file, was too short while the store was off",
        "somebody copied or restored the directory, and not all of it",
        "a segment that is not the last, or any file of a queue, is cut short in the image",
        "the tools of everyday life",
    )._replace(by_scenarios=True)
    FULL_AT_START = _rest(
        "full disk at a start",
        "the disk had no room for files of queues when the program was started again",
        "somebody else filled the disk, and the queues were deleted to have them built again",
        "queues and index are left out of the image, and the disk holds no more until the store runs",
        "the tools of everyday life",
    )._replace(by_scenarios=True)
    MISSING_SEGMENT = _rest(
        "missing segment",
        "the oldest segments were missing, or one between two others with expired segments before it",
        "an operator removes the oldest files by hand; a backup was restored without one of its files",
        "segments are left out of the image, and those before a gap get an earlier time of change",
        "the tools of everyday life",
    )._replace(by_scenarios=True)
    STRAY_FILE = _rest(
        "stray file",
        "a file that is not the store's was among the store's files",
        "mount points have a `lost+found`, people leave notes and copies, tools their marks",
        "a file is laid into the image of a stopped store; no start may mind or remove it",
        "the tools of everyday life; ext4(5), lost+found",
    )._replace(by_scenarios=True)
    DAMAGED_CHECKPOINT = _rest(
        "damaged checkpoint",
        "the checkpoint was cut short, or held a time below zero, while the store was off",
        "drives lose sectors, directories are copied or restored in part",
        "the file is cut or eight of its bytes are set in the image; what it says can be had from the log",
        "the tools of everyday life",
    )._replace(by_scenarios=True)
    LOST_SECTOR = _rest(
        "lost sector",
        "a sector at the end of the log was zeroed while the store was off",
        "drives lose sectors, and give zeros for what they have lost or unmapped",
        "a sector of the image is zeroed",
        "Bairavasundaram et al., An Analysis of Latent Sector Errors in Disk Drives, SIGMETRICS 2007",
    )._replace(by_scenarios=True)
    DAMAGED_RECORD = _rest(
        "damaged record",
        "a bit of a record in the midst of a log was another one when the program was started again",
        "data decays, and drives do not always notice",
        "a bit of a record's content, magic or size is flipped in the image, and what leads to it may be removed",
        _FAST_2008,
    )._replace(by_scenarios=True)
    FLIPPED_NUMBER = _rest(
        "flipped number",
        "a bit of a record's running number, which no checksum covers, was another one at the next start",
        "data decays, and drives do not always notice",
        "a bit of the field is flipped in the image",
        _FAST_2008,
    )._replace(by_scenarios=True)
    SKIPPED_NUMBERS = _rest(
        "skipped numbers",
        "running numbers of records went on behind a gap when the program was started again",
        "another version ran in between, and counted what a crash had left empty",
        "zero entries are added before the start, numbers go on after them",
        "spec of the store: what a real version leaves behind an empty file",
    )._replace(knob="starts.skipped_numbers_max", by_scenarios=True)
    SPLIT_DELIVERY = _network(
        "split delivery",
        "bytes that were sent at once arrived in two pieces",
        "a stream has no messages: segments, buffers and readers cut it anywhere",
        "the bytes behind the first ones, drawn how many, arrive a delay of their own after them",
        f"{_TCP}, section 3.8",
    )._replace(knob="split_chance")
    LATE_DELIVERY = _network(
        "late delivery",
        "something took much longer than usual to arrive, and all behind it in its stream with it",
        "queues in switches fill, packets are lost and sent again",
        "its delay grows by a log-uniform draw, up to late_ms_max",
        f"RFC 6298; {_RELIABLE}",
    )._replace(knob="late_chance")
    PARTITION = _network(
        "partition",
        "two hosts could not reach each other for a while",
        "switches fail, cables are pulled, rules of firewalls are wrong",
        "from a drawn transmission on and for a drawn time, what either sends arrives only afterwards, at its sender's "
        "next try; connections cannot be made",
        _PARTITIONS,
    )._replace(knob="partition_chance")
    ONE_WAY_LINK = _network(
        "one-way link",
        "one host could not reach another for a while, but was reached by it",
        "a broken transceiver or a wrong route takes one direction only",
        "as partition, for one direction",
        f"{_PARTITIONS} (simplex partitions)",
    )._replace(knob="one_way_chance")
    SLOW_LINK = _network(
        "slow link",
        "a link carried few bytes a second for a while",
        "saturated uplinks, links that have fallen back to a lower rate, fail-slow hardware",
        "bytes stand behind those sent before, slow_link_bytes_per_s, for a drawn time",
        "Gunawi et al., Fail-Slow at Scale, FAST 2018",
    )._replace(knob="slow_link_chance")
    BROKEN_CONNECTION = _network(
        "broken connection",
        "a connection was reset while both of its ends lived",
        "load balancers, firewalls and address translators forget or cut connections",
        "both ends learn of a reset, each after a delay; what had not arrived by then is lost",
        f"{_TCP}, section 3.5.2; {_RELIABLE}",
    )._replace(knob="broken_chance")
    HALF_OPEN_CONNECTION = _network(
        "half-open connection",
        "a connection lost its way, and neither end has learnt of it",
        "an address translator forgets an idle connection and drops what comes for it",
        "nothing sent from then on arrives; senders fill their buffers, and learn of it after 924 s",
        f"{_TCP}, section 3.5.1; RFC 5382",
    )._replace(knob="half_open_chance")
    REFUSED_CONNECTION = _network(
        "refused connection",
        "a connection that somebody waited for was refused",
        "a port that is just being opened again, a full queue, a firewall that rejects",
        "ConnectionRefusedError after a round trip",
        f"{_TCP}, section 3.10.7.1",
    )._replace(knob="refused_chance")
    FAILED_POLL = _network(
        "failed poll",
        "a wait for many connections failed, and with it the task that serves them",
        "a library closes a descriptor twice, and the second time its number belongs to the poller",
        "OSError (EBADF) from the poller's wait",
        "epoll_wait(2), EBADF",
    )._replace(knob="failed_poll_chance")
    SILENT_DEATH = _network(
        "silent death",
        "a machine was off from one moment to the next, and its peers heard nothing",
        "the power goes, the system panics: nobody is left to end connections",
        "the last pieces under way may be lost; its ends say nothing, until another machine of its name answers with "
        "resets; at every power cut that the network knows of, otherwise by chance",
        f"{_TCP}, section 3.5.1",
    )._replace(knob="silent_death_chance")
    RESET_AT_DEATH = _network(
        "reset at death",
        "a process died, and its connections were reset rather than ended",
        "the system resets a connection of a dead process in which something was left unread",
        "peers learn of a reset; what had not arrived by then is lost",
        "RFC 2525, section 2.17; RFC 1122, section 4.2.2.13",
    )._replace(knob="reset_at_death_chance")


FAULTS: dict[str, str] = {kind.value: kind.row.meaning for kind in FaultKind if not kind.row.by_probes}
"""Name -> meaning of each kind that a simulation can inject."""
