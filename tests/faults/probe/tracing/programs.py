"""Python programs for the recorder of system calls. Python can make every call."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.faults.probe.steps import Recorded
from tornlog.faults.disk.image import Image
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.tracing.run import record_traced

_BEGIN = """
import array, ctypes, errno, mmap, os, signal, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
long = ctypes.c_long
IO_SETUP, IO_SUBMIT, IO_GETEVENTS = (206, 209, 208) if os.uname().machine == "x86_64" else (0, 2, 4)
def done(result):
    assert result not in (-1, 2**64 - 1), os.strerror(ctypes.get_errno())
    return result
def in_child(act):
    if not os.fork():
        act()
        os._exit(0)
    assert os.wait()[1] == 0
def address(mapped, at=0):
    return ctypes.addressof(ctypes.c_char.from_buffer(mapped, at))
class Ring:
    # of io_uring; a request is: operation, descriptor, offset, address, length, flags of the operation, dict of others
    def __init__(self, entries=8, flags=0):
        params = bytearray(120)
        struct.pack_into("<I", params, 8, flags)
        self.fd = done(libc.syscall(425, entries, (ctypes.c_char * 120).from_buffer(params)))
        self.entries, self.completions = struct.unpack_from("<II", params)
        self.submission, self.completion = struct.unpack_from("<7I", params, 40), struct.unpack_from("<7I", params, 80)
        self.has_array = not flags & 1 << 16
        ends = self.completion[5] + 16 * self.completions, self.submission[6] + 4 * self.entries
        self.map = mmap.mmap(self.fd, max(ends))
        self.requests = mmap.mmap(self.fd, 64 * self.entries, offset=0x10000000)
    def word(self, at, value=None):
        if value is not None: struct.pack_into("<I", self.map, at, value % 2**32)
        return struct.unpack_from("<I", self.map, at)[0]
    def queue(self, opcode, fd=-1, other=0, address=0, length=0, how=0, *, flags=0, data=0, slot=0, buffer=0):
        tail = self.word(self.submission[1])
        index = tail % self.entries
        words = opcode, flags, 0, fd, other % 2**64, address, length % 2**32, how, data, buffer, 0, slot, 0, 0
        request = struct.pack("<BBHiQQIIQHHIQQ", *words)
        self.requests[64 * index:64 * index + 64] = request
        if self.has_array: self.word(self.submission[6] + 4 * index, index)
        self.word(self.submission[1], tail + 1)
    def enter(self, count, wanted=0, flags=1):
        return libc.syscall(426, self.fd, count, wanted, flags, None, long(0))
    def take(self):
        head, tail = self.word(self.completion[0]), self.word(self.completion[1])
        at = [self.completion[5] + 16 * (place % self.completions) for place in range(head, tail)]
        self.word(self.completion[0], tail)
        return [struct.unpack_from("<Qi", self.map, place) for place in at]
    def do(self, *requests):
        for number, request in enumerate(requests):
            *words, more = (*request, {}) if not isinstance(request[-1], dict) else request
            self.queue(*words, **{"data": number, **more})
        assert self.enter(len(requests), len(requests)) == len(requests)
        return [result for _, result in sorted(self.take())]
    def register(self, operation, argument, count):
        return done(libc.syscall(427, self.fd, operation, long(argument or 0), count))
READV, WRITEV, FSYNC, READ_FIXED, WRITE_FIXED, ALLOCATE, OPENAT, CLOSE, UPDATE = 1, 2, 3, 4, 5, 17, 18, 19, 20
READ, WRITE, SPLICE, RENAMEAT, UNLINKAT, MKDIRAT, SYMLINKAT, LINKAT, FTRUNCATE = 22, 23, 30, 35, 36, 37, 38, 39, 55
FIXED, DRAIN, LINK, HARD, SKIP = 1, 2, 4, 8, 64
kept = []
def at(data):
    kept.append(ctypes.create_string_buffer(data))
    return ctypes.addressof(kept[-1])
def file(name="f", content=b"a" * 10000, flags=0):
    opened = os.open(name, os.O_RDWR | os.O_CREAT | flags, 0o644)
    os.write(opened, content)
    return opened
"""


def _has_io_uring() -> bool:
    parameters = ctypes.create_string_buffer(120)
    ring: int = ctypes.CDLL(None).syscall(425, 1, parameters)
    if ring >= 0:
        os.close(ring)
    return ring >= 0


needs_io_uring = pytest.mark.skipif(not _has_io_uring(), reason="the kernel, or a filter around us, has no io_uring")


def python(lines: str) -> list[str]:
    """Return the command that runs these lines after the common helpers."""
    return [sys.executable, "-I", "-S", "-c", _BEGIN + dedent(lines)]


def compiled(directory: Path, source: str, *options: str) -> str:
    """Return a program in C, built in a directory. Skips the test without gcc."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (directory / "program.c").write_text(dedent(source))
    program = str(directory / "program")
    subprocess.run(["gcc", *options, "-o", program, str(directory / "program.c")], check=True)
    return program


def traced(lines: str, stores: str = "step", start: Image = EMPTY) -> Recorded:
    """Return the record of these lines."""
    return record_traced(python(lines), start, 60.0, stores)
