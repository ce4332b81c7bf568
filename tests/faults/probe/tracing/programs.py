"""Python programs for the recorder of system calls. Python can make every call."""

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
def file(name="f", content=b"a" * 10000, flags=0):
    opened = os.open(name, os.O_RDWR | os.O_CREAT | flags, 0o644)
    os.write(opened, content)
    return opened
"""


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
