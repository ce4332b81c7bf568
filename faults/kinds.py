"""Every kind of fault, by the name it is counted under: what really happens, how that is modelled, who says so.

Beside these, `crash <profile>` counts how lives ended and `crash <moment> <operation>` what the plug hit.
"""

from typing import NamedTuple

GROUPS = ("crash", "sync", "write", "read", "space", "time", "rest", "machine")
"""What a kind strikes: what a crash leaves, syncs, writes, reads, room on the disk, how long things take, data that
nobody touches, and the machine as a whole."""


class FaultKind(NamedTuple):
    """One kind of fault."""

    name: str
    group: str
    meaning: str
    """What it means when it fired, in a line."""
    reality: str
    """What really happens."""
    model: str
    """How it is modelled, and what switches it on if it is a field of FaultPlan."""
    source: str
    by_scenarios: bool = False
    """Whether only scenarios do it: they know where it hurts."""


_OSDI_2014 = "Pillai et al., All File Systems Are Not Created Equal, OSDI 2014"
_ATC_2020 = "Rebello et al., Can Applications Recover from fsync Failures?, USENIX ATC 2020"
_FAST_2013 = "Zheng et al., Understanding the Robustness of SSDs under Power Fault, FAST 2013"
_FAST_2008 = "Bairavasundaram et al., An Analysis of Data Corruption in the Storage Stack, FAST 2008"
_PAUSES = (
    "Gunawi et al., Why Does the Cloud Stop Computing?, SoCC 2016; Lion et al., OSDI 2016, on warm-up of JVMs"
)

KINDS: tuple[FaultKind, ...] = (
    FaultKind(
        "page kept",
        "crash",
        "a page that was not synced is on the platter all the same, as it was last written",
        "the kernel writes dirty pages back whenever it likes, in any order",
        "each dirty page is, on its own, at any moment since its last sync, here the last one",
        _OSDI_2014,
    ),
    FaultKind(
        "page lost",
        "crash",
        "a page that was not synced is on the platter as its last sync left it",
        "the power goes before the kernel has written the page back",
        "as page kept, at the first moment",
        _OSDI_2014,
    ),
    FaultKind(
        "page at a middle moment",
        "crash",
        "a page that was not synced is as it was at some moment in between",
        "the page was written back and has been changed since",
        "as page kept, at any other moment",
        _OSDI_2014,
    ),
    FaultKind(
        "torn page",
        "crash",
        "sectors of one page are from two different moments",
        "drives write sectors whole, and stop between two of them when the power goes",
        "any subset of a page's sectors is of one moment, the rest of another, but where a profile's pages are whole",
        "SQLite, Atomic Commit, on the atomicity of sectors; " + _OSDI_2014,
    ),
    FaultKind(
        "torn sector",
        "crash",
        "the first bytes of one sector are from a newer moment than its other bytes",
        "a sector's write is cut short, and no checksum of the drive tells",
        "in a torn page one sector is newer up to a drawn byte (torn_bytes_chance)",
        f"{_FAST_2013} (shorn writes); PostgreSQL manual, full_page_writes",
    ),
    FaultKind(
        "garbage sector",
        "crash",
        "a sector that was being written holds neither the old nor the new bytes",
        "power falls while a head or a flash cell is being written, or while a drive moves its mapping tables",
        "sectors in which a torn page's two moments differ hold zeros, 0xFF, chance or another sector (garbage_chance)",
        f"{_FAST_2013} (bit corruption, unserializable writes); SQLite, Powersafe Overwrite",
    ),
    FaultKind(
        "name lost",
        "crash",
        "a file whose directory was not synced is gone",
        "creation changes the directory, which has a durability of its own",
        "a change of metadata is lost, alone or with all behind it, as the profile says",
        f"fsync(2), NOTES; {_OSDI_2014}",
    ),
    FaultKind(
        "directory lost",
        "crash",
        "a directory whose parent was not synced is gone, with all that is in it",
        "as name lost",
        "as name lost; what a lost directory held has no name either",
        f"fsync(2), NOTES; {_OSDI_2014}",
    ),
    FaultKind(
        "size lost",
        "crash",
        "a file that was extended and not synced has its old length",
        "the length is metadata, written later than the data or earlier",
        "as name lost, by the file's own sync; with delayed allocation each on its own",
        "XFS FAQ, binary NULLS in files after recovery; " + _OSDI_2014,
    ),
    FaultKind(
        "emptying undone",
        "crash",
        "a file that was emptied and written anew has its old content",
        "truncation is metadata and was not logged in time",
        "as size lost; the old content comes back",
        _OSDI_2014,
    ),
    FaultKind(
        "unlink undone",
        "crash",
        "a file that was removed is back",
        "removal changes the directory, which was not logged in time",
        "as name lost",
        _OSDI_2014,
    ),
    FaultKind(
        "rename undone",
        "crash",
        "a file that was renamed has its old name",
        "as unlink undone; both names change at once",
        "as name lost, by the directory of the new name",
        f"rename(2); {_OSDI_2014}",
    ),
    FaultKind(
        "removal undone",
        "crash",
        "a directory that was removed is back",
        "as unlink undone",
        "as name lost",
        _OSDI_2014,
    ),
    FaultKind(
        "slow sync",
        "time",
        "a sync took far longer than its like",
        "drives collect garbage, remap and throttle; queues fill up",
        "a drawn latency up to slow_sync_ms_max (slow_sync_chance)",
        "Hao et al., The Tail at Store, FAST 2016",
    ),
    FaultKind(
        "failed sync",
        "sync",
        "a sync failed once, and the kernel forgot the pages it was to write",
        "a write-back error is told once; the pages are clean, with new bytes or with the old ones again",
        "EIO; what is left is as failing_sync says, a later sync succeeds (failed_sync_chance)",
        _ATC_2020,
    ),
    FaultKind(
        "late sync error",
        "sync",
        "a sync failed for what an earlier one had answered OK, and took that from the platter",
        "with data=journal a sync ends when the journal has the data; the error of their copy is told by the next one",
        "under failing_sync ext4-data the pages of a struck sync are taken back at the file's next one",
        _ATC_2020,
    ),
    FaultKind(
        "failed directory sync",
        "sync",
        "a sync of a directory failed, and its names are as unsure as before",
        "the directory's blocks or the journal could not be written",
        "EIO, and nothing is durable that was not before (failed_directory_sync_chance)",
        f"fsync(2), ERRORS; {_ATC_2020}",
    ),
    FaultKind(
        "stopped file system",
        "sync",
        "a sync failed because the journal could not be written, and the file system stopped",
        "ext4 and btrfs remount themselves read-only, xfs shuts down",
        "every later change raises EROFS, under xfs every operation EIO (stopped_file_system_chance)",
        f"{_ATC_2020}; ext4(5), errors=; xfs(5)",
    ),
    FaultKind(
        "lying sync",
        "sync",
        "a sync was answered OK while what it covers was in the drive's volatile cache only",
        "drives, controllers and hypervisors acknowledge flushes that they have not carried out",
        "as unsure as before until an honest sync of anything, but for kills and os-crash (lying_sync_chance)",
        f"{_FAST_2013}; Rajimwale et al., Coerced Cache Eviction and Discreet-Mode Journaling, DSN 2011",
    ),
    FaultKind(
        "lie exposed",
        "crash",
        "a power cut took something that a sync had acknowledged",
        "the drive's volatile cache is lost with the power",
        "counted by page and by name or length, where a lying sync had answered",
        _FAST_2013,
    ),
    FaultKind(
        "failed creation",
        "space",
        "a file could not be made, for want of space",
        "no inode or no directory block is left",
        "ENOSPC (failed_creation_chance)",
        "open(2), ERRORS",
    ),
    FaultKind(
        "disk full",
        "space",
        "a file could not be made or grow, for the disk holds no more",
        "no block is left",
        "ENOSPC; a write through a descriptor first takes what fits (capacity_bytes of the disk)",
        "write(2), posix_fallocate(3), ERRORS",
    ),
    FaultKind(
        "failed write",
        "write",
        "a write through a descriptor failed before it wrote anything",
        "the page cannot be had or read before it is changed in part",
        "EIO (failed_write_chance)",
        "write(2), ERRORS",
    ),
    FaultKind(
        "short write",
        "write",
        "a write through a descriptor wrote only some of its first bytes",
        "a signal or want of space ends a write half way",
        "a drawn number of bytes, 1 at least (short_write_chance)",
        "write(2), RETURN VALUE",
    ),
    FaultKind(
        "refused mlock",
        "machine",
        "the system would not keep a mapped file in memory",
        "RLIMIT_MEMLOCK, or too little memory",
        "ENOMEM (refused_lock_chance)",
        "mlock(2), ERRORS",
    ),
    FaultKind(
        "failed read",
        "read",
        "a small file could not be read",
        "the drive gives up on a sector, or the way to it fails",
        "EIO, nothing is read (failed_read_chance)",
        "read(2), ERRORS",
    ),
    FaultKind(
        "failed map",
        "read",
        "a file could not be opened to be mapped",
        "the inode cannot be read",
        "EIO, before anything is made or grows (failed_map_chance)",
        "open(2) and mmap(2), ERRORS; Prabhakaran et al., IRON File Systems, SOSP 2005",
    ),
    FaultKind(
        "failed look-up",
        "read",
        "a directory could not be listed, or a path not be looked up",
        "the directory's blocks cannot be read",
        "EIO (failed_lookup_chance)",
        "readdir(3) and stat(2), ERRORS; Prabhakaran et al., IRON File Systems, SOSP 2005",
    ),
    FaultKind(
        "latent sector error",
        "read",
        "somebody needed a sector that could not be read",
        "sectors go bad unnoticed, until they are read; one that is overwritten is remapped",
        "EIO through a descriptor, SIGBUS and the process's death through a map, whose pages it spoils (bad_sectors)",
        "Bairavasundaram et al., An Analysis of Latent Sector Errors in Disk Drives, SIGMETRICS 2007; mmap(2), SIGBUS",
    ),
    FaultKind(
        "failed extend",
        "space",
        "a file could not be made longer, for want of space",
        "no block is left",
        "ENOSPC, and the file is as long as before (failed_extend_chance)",
        "posix_fallocate(3), ERRORS",
    ),
    FaultKind(
        "hole without room",
        "space",
        "a process died of storing into a page that had no block, and got none",
        "blocks of a sparse file are given out at the first store, which has no way to fail but SIGBUS",
        "growing allocates nothing (sparse); a first store without room kills the process, a pwrite raises ENOSPC",
        "mmap(2), SIGBUS; ftruncate(2); posix_fallocate(3)",
    ),
    FaultKind(
        "lost write",
        "write",
        "a page that a sync had written never reached the platter",
        "drives drop writes that they have acknowledged",
        "the sync succeeds; the platter's page is as before, and the page cache is right (lost_write_chance)",
        _FAST_2008,
    ),
    FaultKind(
        "misdirected write",
        "write",
        "a page that a sync had written arrived at another page's place",
        "drives write right data to a wrong address",
        "as lost write, and another page of any file has the data on the platter (misdirected_write_chance)",
        _FAST_2008 + "; Krioukov et al., Parity Lost and Parity Regained, FAST 2008",
    ),
    FaultKind(
        "slow IO",
        "time",
        "a read, a map, a look-up or a write through a descriptor took far longer than its like",
        "retries, queues, throttling and garbage collection in the drive",
        "the task waits; bounded Pareto, 1 ms to slow_io_ms_max (slow_io_chance)",
        "Hao et al., The Tail at Store, FAST 2016",
    ),
    FaultKind(
        "stalled device",
        "time",
        "the whole device stood still, and all who came meanwhile waited",
        "firmware pauses, resets of the link, controllers that hang and come back",
        "syncs and what slow IO strikes wait for its end; bounded Pareto, 100 ms to stall_ms_max (stall_chance)",
        "Gunawi et al., Fail-Slow at Scale, FAST 2018",
    ),
    FaultKind(
        "bit rot",
        "rest",
        "a bit changed while nobody looked",
        "media decay, and drives that do not notice",
        "a drawn bit of an image is another one (RotPlan.bit_rot_chance)",
        _FAST_2008,
    ),
    FaultKind(
        "zeroed sector",
        "rest",
        "a sector held zeros after a while",
        "mapping tables lose sectors, and trimmed ones read as zeros",
        "a drawn sector of an image is zeroed (RotPlan.zeroed_sector_chance)",
        _FAST_2008 + "; " + _FAST_2013,
    ),
    FaultKind(
        "swapped pages",
        "rest",
        "two pages of a file had changed places",
        "mapping tables that point to each other's page after a firmware's mistake",
        "two drawn pages of a file of an image are exchanged (RotPlan.swapped_pages_chance)",
        _FAST_2008,
    ),
    FaultKind(
        "paused task",
        "machine",
        "a task stood still while the others ran on",
        "page faults, throttling, a preempted virtual processor",
        "a task is parked at a scheduling point; bounded Pareto, 1 ms to paused_task_ms_max (DisturbancePlan)",
        _PAUSES,
    ),
    FaultKind(
        "paused machine",
        "machine",
        "nothing ran for a while, and time went on",
        "garbage collection, migration of virtual machines, hosts that swap",
        "time passes at a scheduling point; bounded Pareto, 1 ms to paused_machine_ms_max (DisturbancePlan)",
        _PAUSES,
    ),
    FaultKind(
        "clock step",
        "machine",
        "the wall clock jumped, ahead or back",
        "time daemons step clocks that are too far off, administrators set them",
        "wall_offset_ms changes by a drawn amount, up to clock_step_ms_max (DisturbancePlan)",
        "settimeofday(2); RFC 5905; Sheehy, There is No Now, ACM Queue 2015",
    ),
    FaultKind(
        "starved task",
        "machine",
        "a task that could have run was passed over for as long as any other could",
        "schedulers are not fair to threads of low priority",
        "a policy that leaves one task out for a drawn number of steps (sim.policies.starving)",
        "sched(7)",
    ),
    FaultKind(
        "second start",
        "machine",
        "somebody started the store again while it ran",
        "an impatient operator, a supervisor that has lost track",
        "another process loads a store on the same directory, in the midst of traffic",
        "spec of the store: the lock file",
        by_scenarios=True,
    ),
    FaultKind(
        "old blocks",
        "crash",
        "sectors of the log that were never written hold what an older segment had there",
        "blocks given to a file show what they held before, on file systems that do not zero them first",
        "behind the log's end an older segment's bytes are laid into the image",
        "ext4(5), data=writeback",
        by_scenarios=True,
    ),
    FaultKind(
        "odd size",
        "rest",
        "a segment in front of others was too short while the store was off",
        "somebody copied or restored the directory, and not all of it",
        "a segment that is not the last is cut short in the image",
        "the tools of everyday life",
        by_scenarios=True,
    ),
    FaultKind(
        "lost sector",
        "rest",
        "a sector at the end of the log was zeroed while the store was off",
        "drives lose sectors, and give zeros for what they have lost or unmapped",
        "a sector of the image is zeroed",
        "Bairavasundaram et al., An Analysis of Latent Sector Errors in Disk Drives, SIGMETRICS 2007",
        by_scenarios=True,
    ),
)

FAULTS: dict[str, str] = {kind.name: kind.meaning for kind in KINDS}
"""Name -> what it means when it fired."""
