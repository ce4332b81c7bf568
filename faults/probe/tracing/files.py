"""Recorded files: identified at each call by the kernel's data about a descriptor.

There is no table of descriptors, so dup, fork, exec and descriptor passing need no special handling. A file is
identified by its inode number, which is not reused because the recorder keeps each file open. `/proc/TID/fdinfo/N` has
position, flags, mount and inode of a descriptor. The recorder keeps this file open, too, and reads it again at each
call, which takes a microsecond. On btrfs and overlayfs, files of one mount can have equal inode numbers; the device
number from fstat distinguishes them.
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
    """A file of the record. descriptor: the recorder's own, to read the file."""

    number: int
    descriptor: int

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return bytes of the file, or fewer at its end."""
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
_REGISTERED_MIN = 1 << 31  # no descriptor of a program has such a number


class RegisteredFile(NamedTuple):
    """A file that io_uring keeps, perhaps without a descriptor. directory: its path on the program's disk, or "".

    is_prompt: whether it is on a disk, so that no request on it waits for another program.
    """

    state: DescriptorState
    directory: str
    is_prompt: bool


class KnownFiles:
    """All files below root (a real path), and the outputs that can have promises."""

    def __init__(self, root: str) -> None:
        self.root = root
        status = os.stat(root)
        self.device = status.st_dev
        self._files: dict[tuple[int, int], KnownFile] = {}
        self._outputs: dict[tuple[int, int], str] = {}
        self._devices: dict[int, int] = {}
        """Device by mount number. Empty for file systems on which one mount has several devices."""
        self.registered: dict[int, RegisteredFile] = {}
        """Files without descriptors, by numbers that take the place of descriptors."""
        self._registrations = 0
        self._kept: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._is_by_mount = _file_system(root) in _NUMBERED_BY_MOUNT
        for path in sorted(_files_below(root)):
            self._add_file(os.open(root + path, _READ | os.O_NOFOLLOW))

    def close(self) -> None:
        """Close the recorder's own descriptors."""
        for descriptor in (*self._kept.values(), *(file.descriptor for file in self._files.values())):
            os.close(descriptor)

    def _add_file(self, descriptor: int) -> KnownFile:
        status = os.fstat(descriptor)
        file = KnownFile(len(self._files), descriptor)
        self._files[status.st_dev, status.st_ino] = file
        return file

    def add_output(self, name: str, descriptor: int) -> None:
        """Register an output. descriptor: the recorder's own."""
        status = os.fstat(descriptor)
        self._outputs[status.st_dev, status.st_ino] = name

    def of(self, status: os.stat_result) -> KnownFile | None:
        return self._files.get((status.st_dev, status.st_ino))

    def add_new_file(self, path: str) -> KnownFile:
        """Register a new file. path: any path by which the recorder can read it. OSError: it cannot be opened."""
        return self._add_file(os.open(path, _READ))

    def descriptor_state(self, thread: int, descriptor: int) -> DescriptorState:
        """Return the target of a thread's descriptor: neither file nor output if there is no such descriptor."""
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
        return DescriptorState(self._files.get(identity), self._outputs.get(identity, ""), position, flags)

    def _keep_fdinfo(self, key: tuple[int, int]) -> int:
        assert key not in self._kept, key
        if len(self._kept) >= _KEPT_MAX:
            os.close(self._kept.popitem(last=False)[1])
        kept = self._kept[key] = os.open(f"/proc/{key[0]}/fdinfo/{key[1]}", _READ)
        return kept

    def register(self, state: DescriptorState, directory: str, *, is_prompt: bool) -> int:
        """Return a number that stands for a file in place of a descriptor."""
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
    """Return position, flags, mount and inode from an fdinfo file; -1 for an inode that an old kernel does not show."""
    if ptrace.CORE is not None:
        return ptrace.CORE.descriptor_facts(descriptor)
    words = os.pread(descriptor, 160, 0).split(None, 8)
    inode = int(words[7]) if len(words) > 7 and words[6] == b"ino:" else -1
    return int(words[1]), int(words[3], 8), int(words[5]), inode


def path_below(root: str, path: str) -> str | None:
    """Return a real path as a path on the program's disk, or None if it is elsewhere."""
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
    """Return the type of a path's file system, or ""."""
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
