"""Cores in C, or the builds of `make sanitize`."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from typing import TypeVar

import pytest

Core = TypeVar("Core")


def load_native(load: Callable[[], Core | None], package: str, name: str, variable: str) -> Core:
    """Return a core. A variable of the environment may give the path of another build of its module.

    CI has a compiler, so the core must exist there.
    """
    if path := os.environ.get(variable):
        spec = spec_from_file_location(f"{package}.{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[f"{package}.{name}"] = module_from_spec(spec)
        spec.loader.exec_module(module)
        setattr(import_module(package), name, module)
    loaded = load()
    if loaded is None:
        assert not os.environ.get("CI"), "no core in C was built"
        pytest.skip("no core in C was built, for want of a compiler, or TORNLOG_PURE_PYTHON is set")
    return loaded
