import os
import shutil
import subprocess
import sys
import time
from array import array
from pathlib import Path

import pytest

from tornlog.reports.studies.latency.real.process import StoreProcessFailed, own_store_command, store_process
from tornlog.reports.studies.latency.traffic import Setup

pytestmark = pytest.mark.ci
SETUP = Setup("async", 1, 1.0, 1)
SUSPENDING = """
import sys, time
from pathlib import Path
from tornlog.reports.studies.latency.real.process import store_process
with store_process(["/bin/sh", "-c", "echo '{}'; exec cat"], Path(sys.argv[1]), None) as process:
    with process.resumed():
        pass
    print(process.pid, flush=True)
    time.sleep(60)
"""


def test_a_store_that_ended_is_an_error_with_its_last_line(tmp_path: Path) -> None:
    missing = tmp_path / "not-a-directory"
    missing.write_text("")
    with (
        pytest.raises(StoreProcessFailed, match=r"ended with 1: NotADirectoryError|ended with 1: .*not-a-directory"),
        store_process(own_store_command(missing / "store", SETUP), tmp_path / "scratch", None),
    ):
        pass


def test_a_killed_store_is_an_error_that_suspects_the_memory_limit(tmp_path: Path) -> None:
    with store_process(own_store_command(tmp_path / "store", SETUP), tmp_path / "scratch", None) as process:
        os.kill(process.pid, 9)
        with pytest.raises(StoreProcessFailed, match=r"ended with -9 \(the memory limit may be too small\)"):
            process.put([array("q", [0])])


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not on the PATH")
def test_a_suspended_store_does_not_outlive_a_killed_measurement(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SUSPENDING, str(tmp_path / "scratch")]
    measurement = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert measurement.stdout is not None
    pid = int(measurement.stdout.readline())
    measurement.kill()
    measurement.communicate()

    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(") ")[2].startswith("Z"):
            return
        time.sleep(0.1)
    pytest.fail("the suspended process is still there")
