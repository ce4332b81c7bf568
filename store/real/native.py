"""The core in C, if it was built on this computer and nobody wants Python alone."""

import os
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ..formats.columns import Core

PURE_PYTHON = "TORNLOG_PURE_PYTHON"
"""The environment variable that, unless it is empty, keeps the core from being used."""


def load_core() -> "Core | None":
    """Return the core, None if it is not there or not wanted: everything works without, and more slowly.

    One that was built from other code, as before a checkout's last update, is not there.
    """
    if os.environ.get(PURE_PYTHON):
        return None
    try:
        from ..formats.native import INTERFACE, _records
    except ImportError:
        return None
    return cast("Core", _records) if _records.INTERFACE == INTERFACE else None
