"""Reaper: a process between ours and a check that ends all processes of the check.

A check may start processes outside of its group, as daemons do. When their parents are gone they become children of the
reaper. Without Linux, or if the kernel lists no children, only the check's own group is ended.
"""

import ctypes
import os
import resource
import signal
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import NoReturn

_TAKE_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
_ENDING_SECONDS, _POLL_SECONDS = 1.0, 0.001


def fork_below_reaper(connection: Connection) -> None:
    """Fork, and return in the child. The caller's process becomes the reaper and ends with the child's status.

    connection: only the child keeps it, so that its peer sees the end of the child.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_TAKE_ORPHANS, 1, 0, 0, 0)

    child = 0

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if child:  # end the child's group too, because without /proc no children are listed
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        end_children(os.getpid())
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    child = os.fork()
    if child:
        connection.close()
        _reap_until_end_of(child)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def end_others() -> None:
    """Kill the processes that a check left running. For a child of a reaper without children of its own."""
    end_children(os.getppid(), spared=os.getpid())


def end_children(reaper: int, spared: int = 0) -> None:
    """Kill all children of a reaper except `spared`, and the orphans that become its children."""
    end = monotonic() + _ENDING_SECONDS
    while (children := _children_of(reaper) - {spared}) and monotonic() < end:
        for child in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        sleep(_POLL_SECONDS)
        if reaper == os.getpid():
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _children_of(process: int) -> set[int]:
    try:
        return set(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))
    except OSError:
        return set()


def _reap_until_end_of(child: int) -> NoReturn:
    found = status = 0
    while found != child:
        found, status = os.wait()
    end_children(os.getpid())
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child has already dumped core, if at all
        with suppress(OSError):  # SIGKILL has no handler to reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
