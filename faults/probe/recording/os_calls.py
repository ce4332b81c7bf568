"""The functions of `os` that change files, each with a twin that does the same and has it recorded.

Other modules may have taken a function from `os` before: every name that leads to one is changed in all modules there
are. Where `os` lists functions by what they can do, the twins are listed, too.
"""

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .content_calls import ContentCalls


class OsCalls(ContentCalls):
    """All twins."""

    @property
    def twins(self) -> dict[Callable[..., Any], Callable[..., Any]]:
        """Return what stands for what."""
        found = {
            getattr(os, name): getattr(self, name)
            for name in (
                *("open", "mkdir", "rmdir", "unlink", "rename", "replace", "link", "truncate", "ftruncate"),
                *("write", "pwrite", "writev", "pwritev", "sendfile", "copy_file_range", "splice"),
                *("posix_fallocate", "fsync", "fdatasync", "sync", "close", "closerange", "dup2"),
            )
        }
        return {**found, os.remove: self.unlink}


def install(twins: dict[Any, Any]) -> None:
    """Put twins in the place of what they stand for, in every module there is."""
    by_identity = {id(real): (real, twin) for real, twin in twins.items()}
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType) or module.__name__.startswith(__package__):
            continue
        for name, value in list(vars(module).items()):
            real, twin = by_identity.get(id(value), (None, None))
            if real is value and twin is not None:
                setattr(module, name, twin)
    for name in ("supports_dir_fd", "supports_fd", "supports_follow_symlinks"):
        able = getattr(os, name)
        able.update(twin for real, twin in twins.items() if real in able)
