"""Reaper: a process between ours and one that checks. To it comes, and with it ends, all that a check leaves running.

What a check starts may leave its group, as daemons do, and is a child of the reaper when its parents are gone. A kernel
that is not Linux, or lists no children, has none of this: then the check's own group ends, and no more.
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
    """Fork: who returns is the child of a reaper, which is the process that has called, and ends as the child does.

    connection: of the child alone, so that whoever is at its other end learns when that is gone.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_TAKE_ORPHANS, 1, 0, 0, 0)

    child = 0

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if child:  # it ends its own group, where no children are listed
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
    """End what a check has left running. For the child of a reaper that has no children of its own."""
    end_children(os.getppid(), spared=os.getpid())


def end_children(reaper: int, spared: int = 0) -> None:
    """End all children of a reaper but one, and theirs, which become its own when they have lost their parents."""
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
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child has left one, if any
        with suppress(OSError):  # of SIGKILL, which nobody can change
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
