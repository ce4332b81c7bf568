"""The recorder's C core."""

import pytest

from tests.native_core import load_native
from tornlog.faults.probe.tracing import ptrace
from tornlog.faults.probe.tracing.core import TracingCore, load_core


@pytest.fixture(scope="session")
def core() -> TracingCore:
    loaded = load_native(load_core, "tornlog.faults.probe.tracing.native", "_stops", "SANITIZED_STOPS")
    loaded.gone = ptrace.ThreadGone
    return loaded
