"""RocketMQ's C++ client, on which its PHP and Python clients are based.

Its extFields contain numbers and booleans, where other clients write strings.
"""

import json
import os
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).with_name("driver.py")
PACKAGE = "rocketmq==0.4.4"  # a wheel with the C++ library 2.0
INSTALL_S = 300
RUN_S = 120


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python interpreter with the client. Skips the test if the client cannot be installed or loaded."""
    place = tmp_path_factory.mktemp("cpp") / "environment"
    venv.create(place, with_pip=True)
    program = str(place / "bin" / "python")
    for step in (["-m", "pip", "install", "-q", PACKAGE], ["-c", "import rocketmq.client"]):
        done = subprocess.run([program, *step], capture_output=True, text=True, timeout=INSTALL_S)
        if done.returncode:
            pytest.skip(f"the C++ client cannot be had here, so it has not been tried: {done.stderr[-300:]}")
    return program


def test_the_cpp_client_sends_pulls_and_consumes(python: str, broker: Any, tmp_path: Path) -> None:
    command = [python, str(DRIVER), broker.namesrv, "from-cpp"]
    env = os.environ | {"HOME": str(tmp_path)}  # the client writes its logs into HOME
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])

    assert len(said["sent"]) == 3
    assert said["pushed"] == ["four", "one", "three", "two"]
    assert said["pulled"] == ["four", "one", "two"]
