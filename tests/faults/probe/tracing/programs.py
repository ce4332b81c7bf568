"""Python programs for the recorder of system calls. Python can make every call."""

import sys
from textwrap import dedent

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
def file(name="f", content=b"a" * 10000, flags=0):
    opened = os.open(name, os.O_RDWR | os.O_CREAT | flags, 0o644)
    os.write(opened, content)
    return opened
"""


def python(lines: str) -> list[str]:
    """Return the command that runs these lines after the common helpers."""
    return [sys.executable, "-I", "-S", "-c", _BEGIN + dedent(lines)]


def traced(lines: str, stores: str = "step", start: Image = EMPTY) -> Recorded:
    """Return the record of these lines."""
    return record_traced(python(lines), start, 60.0, stores)
