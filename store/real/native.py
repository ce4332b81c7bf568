"""Loader of the optional C core."""

import os
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ..formats.columns import NativeCore

PURE_PYTHON = "TORNLOG_PURE_PYTHON"
"""Environment variable that, if not empty, disables the C core."""


def load_core() -> "NativeCore | None":
    """Return None if the core is missing or disabled. Without the core the store is slower.

    A core built from other sources, for example before a git pull, counts as missing.
    """
    if os.environ.get(PURE_PYTHON):
        return None
    try:
        from ..formats.native import INTERFACE, _records
    except ImportError:
        return None
    return cast("NativeCore", _records) if _records.INTERFACE == INTERFACE else None
