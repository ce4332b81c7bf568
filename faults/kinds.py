"""Fault kinds: every fault under the name it is counted by, with what really happens, its model, and the source.

Beside these, `crash <profile>` counts how lives ended, and `crash <moment> <operation>` what a crash hit.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

GROUPS = ("crash", "sync", "write", "read", "space", "time", "rest", "machine", "network")
"""What a kind strikes: what a crash leaves, syncs, writes, reads, room on the disk, how long things take, data that
nobody touches, the machine as a whole, and what is between machines."""
_OSDI_2014 = "Pillai et al., All File Systems Are Not Created Equal, OSDI 2014"
_ATC_2020 = "Rebello et al., Can Applications Recover from fsync Failures?, USENIX ATC 2020"
_FAST_2013 = "Zheng et al., Understanding the Robustness of SSDs under Power Fault, FAST 2013"
_FAST_2008 = "Bairavasundaram et al., An Analysis of Data Corruption in the Storage Stack, FAST 2008"
_PAUSES = "Gunawi et al., Why Does the Cloud Stop Computing?, SoCC 2016; Lion et al., OSDI 2016, on warm-up of JVMs"
_PARTITIONS = "Alquraan et al., An Analysis of Network-Partitioning Failures in Cloud Systems, OSDI 2018"
_RELIABLE = "Bailis and Kingsbury, The Network is Reliable, ACM Queue 2014"
_TCP = "RFC 9293"


def _of(group: str) -> Callable[..., tuple[Any, ...]]:
    """Return what makes a row of the table below, for one group: text, meaning, cause, model, source, by_scenarios."""
    return lambda text, *row, by_probes=False: (text, group, *row, *((False, True) if by_probes else ()))


_crash, _sync, _write, _read, _space, _time, _rest, _machine, _network = map(_of, GROUPS)


class FaultKind(StrEnum):
    """One kind of fault; its text is the name that it is counted and recorded under."""

    group: str
    meaning: str
    """What it means when it was injected, in a line."""
    cause: str
    """What really happens."""
    model: str
    """How it is modelled, and what switches it on if it is a field of FaultPlan or NetworkPlan."""
    source: str
    by_scenarios: bool
    """Whether only scenarios do it: they know where it hurts."""
    by_probes: bool
    """Whether only probes do it, to programs that make calls of a real system."""

    def __new__(
        cls,
        text: str,
        group: str,
        meaning: str,
        cause: str,
        model: str,
        source: str,
        by_scenarios: bool = False,
        by_probes: bool = False,
    ) -> "FaultKind":
        """Make a row of the table a member."""
        kind = str.__new__(cls, text)
        kind._value_ = text
        kind.group, kind.meaning, kind.cause = group, meaning, cause
        kind.model, kind.source, kind.by_scenarios, kind.by_probes = model, source, by_scenarios, by_probes
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
        "in a torn page one sector is newer up to a drawn byte (torn_bytes_chance)",
        f"{_FAST_2013} (shorn writes); PostgreSQL manual, full_page_writes",
    )
    GARBAGE_SECTOR = _crash(
        "garbage sector",
        "a sector that was being written holds neither the old nor the new bytes",
        "power falls while a head or a flash cell is being written, or while a drive moves its mapping tables",
        "sectors in which a torn page's two moments differ hold zeros, 0xFF, chance or another sector (garbage_chance)",
        f"{_FAST_2013} (bit corruption, unserializable writes); SQLite, Powersafe Overwrite",
    )
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
        "a log-uniform latency, from that of any sync to slow_sync_ms_max (slow_sync_chance)",
        "Hao et al., The Tail at Store, FAST 2016",
    )
    FAILED_SYNC = _sync(
        "failed sync",
        "a sync failed once, and the kernel forgot the pages it was to write",
        "a write-back error is reported once; the pages are clean, with new bytes or with the old ones again",
        "EIO; what is left is as failing_sync says, a later sync succeeds (failed_sync_chance)",
        _ATC_2020,
    )
    LATE_SYNC_ERROR = _sync(
        "late sync error",
        "a sync failed for what an earlier one had answered OK, and took that from the disk",
        "with data=journal a sync ends when the journal has the data; the next one reports the error of their copy",
        "under failing_sync ext4-data the pages of a struck sync are taken back at the file's next one",
        _ATC_2020,
    )
    FAILED_WRITE_BACK = _sync(
        "failed write-back",
        "a sync failed for a page that the kernel had failed to write back before, maybe under another process",
        "an error of write-back stays with the file until a sync of any part of it, by whoever has it open, reports it",
        "EIO; one drawn dirty page of the file, or none, is clean and not durable (failed_write_back_chance)",
        f"LWN 724307 (errseq_t, Linux 4.13) and LWN 752063; {_ATC_2020}",
    )
    FAILED_DIRECTORY_SYNC = _sync(
        "failed directory sync",
        "a sync of a directory failed, and its names are as unsure as before",
        "the directory's blocks or the journal could not be written",
        "EIO, and nothing is durable that was not before (failed_directory_sync_chance)",
        f"fsync(2), ERRORS; {_ATC_2020}",
    )
    STOPPED_FILE_SYSTEM = _sync(
        "stopped file system",
        "a sync failed because the journal could not be written, and the file system stopped",
        "ext4 and btrfs remount themselves read-only, xfs shuts down",
        "every later change raises EROFS, under xfs every operation EIO (stopped_file_system_chance)",
        f"{_ATC_2020}; ext4(5), errors=; xfs(5)",
    )
    LYING_SYNC = _sync(
        "lying sync",
        "a sync was answered OK while what it covers was in the drive's volatile cache only",
        "drives, controllers and hypervisors acknowledge flushes that they have not carried out",
        "as unsure as before until an honest sync of anything, but for kills and os-crash (lying_sync_chance)",
        f"{_FAST_2013}; Rajimwale et al., Coerced Cache Eviction and Discreet-Mode Journaling, DSN 2011",
    )
    LIE_EXPOSED = _crash(
        "lie exposed",
        "a power cut took something that a sync had acknowledged",
        "the drive's volatile cache is lost with the power",
        "counted by page and by name or length, where a lying sync had answered",
        _FAST_2013,
    )
    FAILED_CREATION = _space(
        "failed creation",
        "a file could not be made, for want of space",
        "no inode or no directory block is left",
        "ENOSPC (failed_creation_chance)",
        "open(2), ERRORS",
    )
    DISK_FULL = _space(
        "disk full",
        "a file could not be made or grow, for the disk holds no more",
        "no block is left",
        "ENOSPC; a write through a descriptor first takes what fits (capacity_bytes of the disk)",
        "write(2), posix_fallocate(3), ERRORS",
    )
    FAILED_WRITE = _write(
        "failed write",
        "a write through a descriptor failed before it wrote anything",
        "the page cannot be had or read before it is changed in part",
        "EIO (failed_write_chance)",
        "write(2), ERRORS",
    )
    SHORT_WRITE = _write(
        "short write",
        "a write through a descriptor wrote only some of its first bytes",
        "a signal or want of space ends a write half way",
        "a drawn number of bytes, 1 at least (short_write_chance)",
        "write(2), RETURN VALUE",
    )
    INTERRUPTED_CALL = _write(
        "interrupted call",
        "a call that changes a file or syncs it was interrupted before it did anything",
        "a signal arrives while a network's or a user's file system makes the call wait; local ones wait on",
        "EINTR, and nothing is done: at one write, truncation, allocation or sync of a probed program",
        "write(2), ftruncate(2), fallocate(2) and fsync(2), ERRORS; signal(7)",
        by_probes=True,
    )
    REFUSED_MLOCK = _machine(
        "refused mlock",
        "the system would not keep a mapped file in memory",
        "RLIMIT_MEMLOCK, or too little memory",
        "ENOMEM (refused_lock_chance)",
        "mlock(2), ERRORS",
    )
    FAILED_READ = _read(
        "failed read",
        "a small file could not be read",
        "the drive gives up on a sector, or the way to it fails",
        "EIO, nothing is read (failed_read_chance)",
        "read(2), ERRORS",
    )
    FAILED_MAP = _read(
        "failed map",
        "a file could not be opened to be mapped",
        "the inode cannot be read",
        "EIO, before anything is made or grows (failed_map_chance)",
        "open(2) and mmap(2), ERRORS; Prabhakaran et al., IRON File Systems, SOSP 2005",
    )
    FAILED_PAGE_IN = _read(
        "failed page-in",
        "a page of a mapped file had left the memory, and could not be read again this once",
        "the system lets clean pages go whenever it likes; the way to the drive fails, and is mended",
        "EIO of a look through a map at clean pages: a JVM raises InternalError there (failed_page_in_chance)",
        "mmap(2), SIGBUS; madvise(2), MADV_POPULATE_READ; the JVM's unsafe accesses, InternalError",
    )
    FAILED_LOOK_UP = _read(
        "failed look-up",
        "a directory could not be listed, or a path not be looked up",
        "the directory's blocks cannot be read",
        "EIO (failed_lookup_chance)",
        "readdir(3) and stat(2), ERRORS; Prabhakaran et al., IRON File Systems, SOSP 2005",
    )
    FAILED_REMOVAL = _write(
        "failed removal",
        "a name could not be removed, and is still there",
        "the directory's blocks cannot be written, or something else holds the file, such as a backup or a scanner",
        "EIO of an unlink, before it has any effect (failed_removal_chance)",
        "unlink(2), ERRORS: EIO, EBUSY",
    )
    FAILED_RENAME = _write(
        "failed rename",
        "a file could not be given another name, and has the one that it had",
        "the directories' blocks cannot be written, or the new name needs one and none is left",
        "EIO of a rename, before it has any effect (failed_rename_chance)",
        "rename(2), ERRORS: EIO, ENOSPC",
    )
    LATENT_SECTOR_ERROR = _read(
        "latent sector error",
        "somebody needed a sector that could not be read",
        "sectors go bad unnoticed, until they are read; one that is overwritten is remapped",
        "EIO through a descriptor, SIGBUS and the process's death through a map (latent_sector_error_chance)",
        "Bairavasundaram et al., An Analysis of Latent Sector Errors in Disk Drives, SIGMETRICS 2007; mmap(2), SIGBUS",
    )
    FAILED_EXTEND = _space(
        "failed extend",
        "a file could not be made longer, for want of space",
        "no block is left",
        "ENOSPC, and the file is as long as before (failed_extend_chance)",
        "posix_fallocate(3), ERRORS",
    )
    HOLE_WITHOUT_ROOM = _space(
        "hole without room",
        "a process died of storing into a page that had no block, and got none",
        "blocks of a sparse file are given out at the first store, which has no way to fail but SIGBUS",
        "a first store without room kills the process, a pwrite raises ENOSPC: growing allocates nothing (sparse)",
        "mmap(2), SIGBUS; ftruncate(2); posix_fallocate(3)",
    )
    LOST_WRITE = _write(
        "lost write",
        "a page that a sync had written never reached the disk",
        "drives drop writes that they have acknowledged",
        "the sync succeeds; what is durable of the page is as before, and the page cache is right (lost_write_chance)",
        _FAST_2008,
    )
    MISDIRECTED_WRITE = _write(
        "misdirected write",
        "a page that a sync had written arrived at another page's place",
        "drives write right data to a wrong address",
        "as lost write, and another page of any file durably has the data (misdirected_write_chance)",
        _FAST_2008 + "; Krioukov et al., Parity Lost and Parity Regained, FAST 2008",
    )
    SLOW_IO = _time(
        "slow IO",
        "a read, a map, a look-up or a write through a descriptor took far longer than its like",
        "retries, queues, throttling and garbage collection in the drive",
        "the task waits; log-uniform, 1 ms to slow_io_ms_max (slow_io_chance)",
        "Hao et al., The Tail at Store, FAST 2016",
    )
    SLOW_PAGE_IN = _time(
        "slow page-in",
        "who looked at a page of a mapped file waited until it was in memory again",
        "the system lets clean pages go whenever it likes, and reading one again takes a drive's time",
        "as failed page-in, and the task waits; log-uniform, 1 ms to slow_io_ms_max (slow_page_in_chance)",
        "Hao et al., The Tail at Store, FAST 2016; mincore(2)",
    )
    STALLED_DEVICE = _time(
        "stalled device",
        "the whole device stood still, and all who came meanwhile waited",
        "firmware pauses, resets of the link, controllers that hang and come back",
        "syncs and what slow IO strikes wait for its end; log-uniform, 100 ms to stall_ms_max (stall_chance)",
        "Gunawi et al., Fail-Slow at Scale, FAST 2018",
    )
    BIT_ROT = _rest(
        "bit rot",
        "a bit changed while nobody looked",
        "media decay, and drives that do not notice",
        "a drawn bit of an image is another one (bit_rot_chance)",
        _FAST_2008,
    )
    ZEROED_SECTOR = _rest(
        "zeroed sector",
        "a sector held zeros after a while",
        "mapping tables lose sectors, and trimmed ones read as zeros",
        "a drawn sector of an image is zeroed (zeroed_sector_chance)",
        _FAST_2008 + "; " + _FAST_2013,
    )
    SWAPPED_PAGES = _rest(
        "swapped pages",
        "two pages of a file had changed places",
        "mapping tables that point to each other's page after a firmware's mistake",
        "two drawn pages of a file of an image are exchanged (swapped_pages_chance)",
        _FAST_2008,
    )
    PAUSED_TASK = _machine(
        "paused task",
        "a task stood still while the others ran on",
        "page faults, throttling, a preempted virtual processor",
        "a task is parked at a scheduling point; log-uniform, 1 ms to paused_task_ms_max (paused_task_chance)",
        _PAUSES,
    )
    PAUSED_MACHINE = _machine(
        "paused machine",
        "nothing ran for a while, and time went on",
        "garbage collection, migration of virtual machines, hosts that swap",
        "time passes at a scheduling point; log-uniform, 1 ms to paused_machine_ms_max (paused_machine_chance)",
        _PAUSES,
    )
    CLOCK_STEP = _machine(
        "clock step",
        "the wall clock jumped, ahead or back",
        "time daemons step clocks that are too far off, administrators set them",
        "wall_offset_ms changes by 1 ms to clock_step_ms_max, log-uniform (clock_step_chance)",
        "settimeofday(2); RFC 5905; Sheehy, There is No Now, ACM Queue 2015",
    )
    STARVED_TASK = _machine(
        "starved task",
        "a task that could have run was passed over for as long as any other could",
        "schedulers are not fair to threads of low priority",
        "a policy leaves one task out for a drawn number of steps (starved_steps_max of scenarios)",
        "sched(7)",
    )
    POWER_CUT_AFTER_STOP = _crash(
        "power cut after a stop",
        "the power went when a store had been stopped cleanly, and before the system had written back its page cache",
        "a machine is switched off, or fails, right behind the process: what a stop has not synced is not durable",
        "what no sync covers is drawn as in a crash of the life's profile, and nothing has died",
        f"fsync(2), NOTES; close(2), NOTES; {_OSDI_2014}",
        True,
    )
    SECOND_START = _machine(
        "second start",
        "somebody started the store again while it ran",
        "an impatient operator, a supervisor that has lost track",
        "another process loads a store on the same directory during traffic (starts.second of scenarios)",
        "spec of the store: the lock file",
        True,
    )
    OUT_OF_MEMORY = _machine(
        "out of memory",
        "a task in the background ended of an error that it did not foresee",
        "a process that has no memory left, a bug: what nobody thought of",
        "one of its waits raises MemoryError (memory.error_chance of scenarios)",
        "Gunawi et al., What Bugs Live in the Cloud?, SoCC 2014",
        True,
    )
    CLIENT_DEATH = _machine(
        "client death",
        "a client's machine died in the midst of what it did, and another came in its place",
        "deployments, crashes and out-of-memory kills of the programs that use a service",
        "a client's machine dies while it asks, or before it has said that it is done with an answer"
        " (client_death_chance of scenarios)",
        "Gunawi et al., Why Does the Cloud Stop Computing?, SoCC 2016",
        True,
    )
    FLIPPED_BIT = _machine(
        "flipped bit",
        "a number that no checksum covers was handed on with one bit wrong",
        "a bit changed on its way, past TCP's checksum, or in memory",
        "one bit of one number is turned over as a machine handles it (flipped_bit_chance of scenarios)",
        "Stone and Partridge, When the CRC and TCP Checksum Disagree, SIGCOMM 2000",
        True,
    )
    OLD_BLOCKS = _crash(
        "old blocks",
        "sectors of the log that were never written hold what an older segment had there",
        "blocks given to a file show what they held before, on file systems that do not zero them first",
        "behind the log's end an older segment's bytes are laid into the image",
        "ext4(5), data=writeback",
        True,
    )
    ODD_SIZE = _rest(
        "odd size",
        "a segment in front of others, or a queue's file, was too short while the store was off",
        "somebody copied or restored the directory, and not all of it",
        "a segment that is not the last, or any file of a queue, is cut short in the image",
        "the tools of everyday life",
        True,
    )
    FULL_AT_START = _rest(
        "full disk at a start",
        "the disk had no room for files of queues when the program was started again",
        "somebody else filled the disk, and the queues were deleted to have them built again",
        "queues and index are left out of the image, and the disk holds no more until the store runs",
        "the tools of everyday life",
        True,
    )
    MISSING_SEGMENT = _rest(
        "missing segment",
        "the oldest segments were missing, or one between two others with expired segments before it",
        "an operator removes the oldest files by hand; a backup was restored without one of its files",
        "segments are left out of the image, and those before a gap get an earlier time of change",
        "the tools of everyday life",
        True,
    )
    STRAY_FILE = _rest(
        "stray file",
        "a file that is not the store's was among the store's files",
        "mount points have a `lost+found`, people leave notes and copies, tools their marks",
        "a file is laid into the image of a stopped store; no start may mind or remove it",
        "the tools of everyday life; ext4(5), lost+found",
        True,
    )
    DAMAGED_CHECKPOINT = _rest(
        "damaged checkpoint",
        "the checkpoint was cut short, or held a time below zero, while the store was off",
        "drives lose sectors, directories are copied or restored in part",
        "the file is cut or eight of its bytes are set in the image; what it says can be had from the log",
        "the tools of everyday life",
        True,
    )
    LOST_SECTOR = _rest(
        "lost sector",
        "a sector at the end of the log was zeroed while the store was off",
        "drives lose sectors, and give zeros for what they have lost or unmapped",
        "a sector of the image is zeroed",
        "Bairavasundaram et al., An Analysis of Latent Sector Errors in Disk Drives, SIGMETRICS 2007",
        True,
    )
    DAMAGED_RECORD = _rest(
        "damaged record",
        "a bit of a record in the midst of a log was another one when the program was started again",
        "data decays, and drives do not always notice",
        "a bit of a record's content, magic or size is flipped in the image, and what leads to it may be removed",
        _FAST_2008,
        True,
    )
    FLIPPED_NUMBER = _rest(
        "flipped number",
        "a bit of a record's running number, which no checksum covers, was another one at the next start",
        "data decays, and drives do not always notice",
        "a bit of the field is flipped in the image",
        _FAST_2008,
        True,
    )
    SKIPPED_NUMBERS = _rest(
        "skipped numbers",
        "running numbers of records went on behind a gap when the program was started again",
        "another version ran in between, and counted what a crash had left empty",
        "zero entries are added before the start, numbers go on after them (starts.skipped_numbers_max of scenarios)",
        "spec of the store: what a real version leaves behind an empty file",
        True,
    )
    SPLIT_DELIVERY = _network(
        "split delivery",
        "bytes that were sent at once arrived in two pieces",
        "a stream has no messages: segments, buffers and readers cut it anywhere",
        "the bytes behind the first ones, drawn how many, arrive a delay of their own after them (split_chance)",
        f"{_TCP}, section 3.8",
    )
    LATE_DELIVERY = _network(
        "late delivery",
        "something took much longer than usual to arrive, and all behind it in its stream with it",
        "queues in switches fill, packets are lost and sent again",
        "its delay grows by a log-uniform draw, up to late_ms_max (late_chance)",
        f"RFC 6298; {_RELIABLE}",
    )
    PARTITION = _network(
        "partition",
        "two hosts could not reach each other for a while",
        "switches fail, cables are pulled, rules of firewalls are wrong",
        "from a drawn transmission on and for a drawn time, what either sends arrives only afterwards, at its sender's "
        "next try; connections cannot be made (partition_chance)",
        _PARTITIONS,
    )
    ONE_WAY_LINK = _network(
        "one-way link",
        "one host could not reach another for a while, but was reached by it",
        "a broken transceiver or a wrong route takes one direction only",
        "as partition, for one direction (one_way_chance)",
        f"{_PARTITIONS} (simplex partitions)",
    )
    SLOW_LINK = _network(
        "slow link",
        "a link carried few bytes a second for a while",
        "saturated uplinks, links that have fallen back to a lower rate, fail-slow hardware",
        "bytes stand behind those sent before, slow_link_bytes_per_s, for a drawn time (slow_link_chance)",
        "Gunawi et al., Fail-Slow at Scale, FAST 2018",
    )
    BROKEN_CONNECTION = _network(
        "broken connection",
        "a connection was reset while both of its ends lived",
        "load balancers, firewalls and address translators forget or cut connections",
        "both ends learn of a reset, each after a delay; what had not arrived by then is lost (broken_chance)",
        f"{_TCP}, section 3.5.2; {_RELIABLE}",
    )
    HALF_OPEN_CONNECTION = _network(
        "half-open connection",
        "a connection lost its way, and neither end has learnt of it",
        "an address translator forgets an idle connection and drops what comes for it",
        "nothing sent from then on arrives; senders fill their buffers, and learn of it after 924 s (half_open_chance)",
        f"{_TCP}, section 3.5.1; RFC 5382",
    )
    REFUSED_CONNECTION = _network(
        "refused connection",
        "a connection that somebody waited for was refused",
        "a port that is just being opened again, a full queue, a firewall that rejects",
        "ConnectionRefusedError after a round trip (refused_chance)",
        f"{_TCP}, section 3.10.7.1",
    )
    FAILED_POLL = _network(
        "failed poll",
        "a wait for many connections failed, and with it the task that serves them",
        "a library closes a descriptor twice, and the second time its number belongs to the poller",
        "OSError (EBADF) from the poller's wait (failed_poll_chance)",
        "epoll_wait(2), EBADF",
    )
    SILENT_DEATH = _network(
        "silent death",
        "a machine was off from one moment to the next, and its peers heard nothing",
        "the power goes, the system panics: nobody is left to end connections",
        "the last pieces under way may be lost; its ends say nothing, until another machine of its name answers with "
        "resets; at every power cut that the network knows of, otherwise by chance (silent_death_chance)",
        f"{_TCP}, section 3.5.1",
    )
    RESET_AT_DEATH = _network(
        "reset at death",
        "a process died, and its connections were reset rather than ended",
        "the system resets a connection of a dead process in which something was left unread",
        "peers learn of a reset; what had not arrived by then is lost (reset_at_death_chance)",
        "RFC 2525, section 2.17; RFC 1122, section 4.2.2.13",
    )


FAULTS: dict[str, str] = {kind.value: kind.meaning for kind in FaultKind if not kind.by_probes}
"""Name -> what it means when it was injected, of all that a simulation can inject."""
