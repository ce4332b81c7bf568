"""Loader of the C core, if it was built on this computer and is not disabled."""

import os
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ..formats.columns import NativeCore

PURE_PYTHON = "TORNLOG_PURE_PYTHON"
"""Environment variable that disables the C core unless the variable is empty."""


def load_core() -> "NativeCore | None":
    """Return None if the core is missing or disabled. The store then works more slowly.

    A core built from other code, such as before an update of the checkout, counts as missing.
    """
    if os.environ.get(PURE_PYTHON):
        return None
    try:
        from ..formats.native import INTERFACE, _records
    except ImportError:
        return None
    return cast("NativeCore", _records) if _records.INTERFACE == INTERFACE else None
