"""Recorded files: identifies the file of a descriptor by the kernel's data.

The recorder keeps no table of descriptors, so dup, fork, exec and descriptor passing need no special handling. Inode
numbers identify files, and the recorder keeps each file open to prevent their reuse. `/proc/TID/fdinfo/N` has file
position, flags, mount and inode of a descriptor. The recorder keeps this file open, too, and reads it at each call in a
microsecond. On btrfs and overlayfs, files of one mount can have equal inode numbers, but different device numbers from
fstat.
"""

import os
from collections import OrderedDict
from dataclasses import dataclass
from stat import S_ISREG
from typing import NamedTuple

from . import ptrace

_READ = os.O_RDONLY | os.O_CLOEXEC
_KEPT_MAX = 256
_NUMBERED_BY_MOUNT = {"ext2", "ext3", "ext4", "xfs", "tmpfs", "f2fs"}
"""File systems on which mount and inode number together identify a file."""


@dataclass(slots=True, eq=False)
class KnownFile:
    """A recorded file. descriptor: the recorder's own descriptor, for reading."""

    number: int
    descriptor: int

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return bytes of the file. The result is shorter at the end of the file."""
        data = os.pread(self.descriptor, size_bytes, at)
        while data and len(data) < size_bytes:
            more = os.pread(self.descriptor, size_bytes - len(data), at + len(data))
            if not more:
                break
            data += more
        return data

    @property
    def size_bytes(self) -> int:
        return os.fstat(self.descriptor).st_size


class DescriptorState(NamedTuple):
    """The target of a descriptor: a recorded file, a named output, or neither."""

    file: KnownFile | None
    output: str
    position: int
    flags: int


_NOTHING = DescriptorState(None, "", 0, 0)
_REGISTERED_MIN = 1 << 31  # larger than any descriptor of a program


class RegisteredFile(NamedTuple):
    """A file registered with io_uring, perhaps without a descriptor. directory: a directory's path on the program's
    disk, else "".

    is_prompt: whether the file is on a disk, so that its requests never wait for another program.
    """

    state: DescriptorState
    directory: str
    is_prompt: bool


class KnownFiles:
    """All files below root (a real path), and the program's recorded outputs."""

    def __init__(self, root: str) -> None:
        self.root = root
        status = os.stat(root)
        self.device = status.st_dev
        self.files: dict[tuple[int, int], KnownFile] = {}
        self.outputs: dict[tuple[int, int], str] = {}
        self._devices: dict[int, int] = {}
        """Device of each mount number, except on file systems with several devices per mount."""
        self.registered: dict[int, RegisteredFile] = {}
        """Files registered with io_uring, by the numbers that replace descriptors."""
        self._registrations = 0
        self._kept: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._is_by_mount = _file_system(root) in _NUMBERED_BY_MOUNT
        for path in sorted(_files_below(root)):
            self._add_file(os.open(root + path, _READ | os.O_NOFOLLOW))

    def close(self) -> None:
        for descriptor in (*self._kept.values(), *(file.descriptor for file in self.files.values())):
            os.close(descriptor)

    def _add_file(self, descriptor: int) -> KnownFile:
        status = os.fstat(descriptor)
        file = KnownFile(len(self.files), descriptor)
        self.files[status.st_dev, status.st_ino] = file
        return file

    def add_output(self, name: str, descriptor: int) -> None:
        """Register an output. descriptor: the recorder's own descriptor."""
        status = os.fstat(descriptor)
        self.outputs[status.st_dev, status.st_ino] = name

    def of(self, status: os.stat_result) -> KnownFile | None:
        return self.files.get((status.st_dev, status.st_ino))

    def add_new_file(self, path: str) -> KnownFile:
        """Register a new file. path: any path at which the recorder can read the file. Raises OSError if the file
        cannot be opened."""
        return self._add_file(os.open(path, _READ))

    def descriptor_state(self, thread: int, descriptor: int) -> DescriptorState:
        """Return the target of a thread's descriptor. An invalid descriptor has neither file nor output."""
        key = (thread, descriptor & 0xFFFF_FFFF)
        kept = self._kept.get(key)
        try:
            if kept is None:
                kept = self._keep_fdinfo(key)
            position, flags, mount, inode = descriptor_facts(kept)
        except OSError:
            return self.registered[key[1]].state if key[1] in self.registered else _NOTHING
        device = self._devices.get(mount) if inode >= 0 else None
        if device is None:
            try:
                status = os.stat(f"/proc/{thread}/fd/{key[1]}")
            except OSError:
                return _NOTHING
            identity = (status.st_dev, status.st_ino)
            if self._is_by_mount:
                self._devices[mount] = status.st_dev
        else:
            identity = (device, inode)
        return DescriptorState(self.files.get(identity), self.outputs.get(identity, ""), position, flags)

    def _keep_fdinfo(self, key: tuple[int, int]) -> int:
        assert key not in self._kept, key
        if len(self._kept) >= _KEPT_MAX:
            os.close(self._kept.popitem(last=False)[1])
        kept = self._kept[key] = os.open(f"/proc/{key[0]}/fdinfo/{key[1]}", _READ)
        return kept

    def register(self, state: DescriptorState, directory: str, *, is_prompt: bool) -> int:
        """Return a number for a file, to use in place of a descriptor."""
        number = _REGISTERED_MIN + self._registrations
        self._registrations += 1
        self.registered[number] = RegisteredFile(state, directory, is_prompt)
        return number

    def unregister(self, number: int) -> None:
        del self.registered[number]

    def forget_thread(self, thread: int) -> None:
        """Close the cached fdinfo files of a thread that has ended or executed another program."""
        for key in [key for key in self._kept if key[0] == thread]:
            os.close(self._kept.pop(key))


def descriptor_facts(descriptor: int) -> tuple[int, int, int, int]:
    """Return file position, flags, mount and inode from an fdinfo file; inode -1 on old kernels."""
    if ptrace.CORE is not None:
        return ptrace.CORE.descriptor_facts(descriptor)
    words = os.pread(descriptor, 160, 0).split(None, 8)
    inode = int(words[7]) if len(words) > 7 and words[6] == b"ino:" else -1
    return int(words[1]), int(words[3], 8), int(words[5]), inode


def path_below(root: str, path: str) -> str | None:
    """Convert a real path to a path on the program's disk, or None if the path is elsewhere."""
    if path.startswith(root) and path[len(root) : len(root) + 1] in ("", os.sep):
        return path[len(root) :] or "/"
    return None


def _files_below(root: str) -> list[str]:
    found = []
    for above, _, names in os.walk(root):
        for name in names:
            path = os.path.join(above, name)
            if S_ISREG(os.lstat(path).st_mode):
                found.append(path[len(root) :])
    return found


def _file_system(path: str) -> str:
    """Return the type of a path's file system, or "" if unknown."""
    descriptor = os.open(path, _READ)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}") as info:
            mount = next((line.split()[1] for line in info if line.startswith("mnt_id:")), "")
    finally:
        os.close(descriptor)
    with open("/proc/self/mountinfo") as mounts:
        for line in mounts:
            words = line.split()
            if words[0] == mount:
                return words[words.index("-") + 1]
    return ""
