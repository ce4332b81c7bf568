"""The recorder's C core."""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from tornlog.faults.probe.tracing import ptrace
from tornlog.faults.probe.tracing.core import TracingCore, load_core


@pytest.fixture(scope="session")
def core() -> TracingCore:
    """The core, or that of `make sanitize` if its path is given. CI has a compiler, so the core must exist there."""
    if path := os.environ.get("SANITIZED_STOPS"):
        name = "tornlog.faults.probe.tracing.native._stops"
        spec = spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
        sys.modules["tornlog.faults.probe.tracing.native"]._stops = sys.modules[name]
    loaded = load_core()
    if loaded is None:
        assert not os.environ.get("CI"), "no core in C was built"
        pytest.skip("no core in C was built, for want of a compiler, or TORNLOG_PURE_PYTHON is set")
    loaded.gone = ptrace.ThreadGone
    return loaded
