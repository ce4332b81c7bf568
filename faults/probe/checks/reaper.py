"""Reaper: a process that starts a check and ends all processes of the check.

A check may start processes outside of its process group, such as daemons. When the parent of a daemon ends, Linux makes
the reaper its parent. On other systems, or if the kernel does not list children, the reaper kills only the process
group.
"""

import ctypes
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import NoReturn

_TAKE_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
_ENDING_SECONDS, _POLL_SECONDS = 1.0, 0.001


def fork_below_reaper(connection: Connection) -> None:
    """Fork, and return in the child. The caller becomes the reaper, and later ends with the child's exit status.

    connection: only the child keeps it open, so that the peer notices the end of the child.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_TAKE_ORPHANS, 1, 0, 0, 0)

    child = 0

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if child:  # kill the child's group too, because without /proc its children are unknown
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        kill_children(os.getpid())
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    child = os.fork()
    if child:
        connection.close()
        _reap_until_end_of(child)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def kill_other_processes() -> None:
    """Kill the processes that a check has left running. The caller must be a child of the reaper and must have no
    children.
    """
    kill_children(os.getppid(), spared=os.getpid())


def kill_children(reaper: int, spared: int = 0) -> None:
    """Kill all children of a reaper except `spared`, also orphans that become its children during the call."""
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


def descendant_processes(process: int) -> Iterator[int]:
    """Yield the children of a process, their children, and so on."""
    for child in _children_of(process):
        yield child
        yield from descendant_processes(child)


def _children_of(process: int) -> set[int]:
    children: set[int] = set()
    with suppress(OSError):
        for task in os.listdir(f"/proc/{process}/task"):  # the kernel lists children by thread
            with suppress(OSError):
                children.update(map(int, Path(f"/proc/{process}/task/{task}/children").read_text().split()))
    return children


def _reap_until_end_of(child: int) -> NoReturn:
    found = status = 0
    while found != child:
        found, status = os.wait()
    kill_children(os.getpid())
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump of the child is already complete
        with suppress(OSError):  # SIGKILL cannot have a handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
