"""A stand-in for `systemctl`: runs the units of a directory that stands for a host, without systemd.

`python systemctl.py HOST …`. HOST has `etc/systemd/system`; the paths of a unit are below HOST.
"""

import configparser
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_PATH = re.compile(r"(?<![\w.])/(?=(?:opt|etc|var)/)")
_SECONDS = 90


class Unit:
    """A service. The file `run/NAME` has the process id."""

    def __init__(self, host: Path, name: str) -> None:
        text = _PATH.sub(f"{host}/", (host / "etc/systemd/system" / f"{name}.service").read_text())
        parser = configparser.ConfigParser(interpolation=None)
        parser.optionxform = str  # type: ignore[assignment, method-assign]
        parser.read_string(text)
        self._service = parser["Service"]
        assert (self._service["Type"], parser["Install"]["WantedBy"]) == ("notify", "multi-user.target")
        self._host, self._name = host, name
        self._pid_file = host / "run" / name
        self._pid_file.parent.mkdir(exist_ok=True)

    def start(self) -> None:
        if self._is_running():
            return
        (self._host / "var/lib" / self._service["StateDirectory"]).mkdir(parents=True, exist_ok=True)
        lines = Path(self._service["EnvironmentFile"]).read_text().splitlines()
        variables = dict(line.split("=", 1) for line in lines)
        words: list[str] = []
        for word in shlex.split(self._service["ExecStart"]):
            if word.startswith("$") and word[1:] in variables:  # systemd splits such a word at blanks
                words += variables[word[1:]].split()
            else:
                words.append(re.sub(r"\$\{(\w+)\}", lambda found: variables[found[1]], word))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            address = f"@{self._pid_file}"
            notified.bind(f"\0{address[1:]}")
            notified.settimeout(_SECONDS)
            minutes = int(self._service["WatchdogSec"].removesuffix("min"))
            environment = {**os.environ, "NOTIFY_SOCKET": address, "WATCHDOG_USEC": str(minutes * 60_000_000)}
            with (self._host / f"{self._name}.log").open("a") as log:
                process = subprocess.Popen(words, env=environment, stdout=log, stderr=log, start_new_session=True)
            self._pid_file.write_text(str(process.pid))
            assert notified.recv(100) == b"READY=1"

    def stop(self) -> None:
        if self._is_running():
            os.kill(int(self._pid_file.read_text()), signal.SIGTERM)
            end = time.monotonic() + _SECONDS
            while self._is_running():
                assert time.monotonic() < end, "still running"
                time.sleep(0.05)
        self._pid_file.unlink(missing_ok=True)

    def _is_running(self) -> bool:
        if not self._pid_file.exists():
            return False
        try:
            state = Path(f"/proc/{self._pid_file.read_text()}/stat").read_text().rpartition(") ")[2]
        except FileNotFoundError:
            return False
        return not state.startswith("Z")


def main(host: Path, verb: str, *words: str) -> None:
    assert not {word for word in words if word.startswith("-")} - {"--now"}, words
    units = [Unit(host, word) for word in words if word != "--now"]
    if verb in ("disable", "stop", "restart"):
        for unit in reversed(units):
            unit.stop()
    if verb in ("enable", "start", "restart"):
        for unit in units:
            unit.start()
    assert verb in ("daemon-reload", "disable", "enable", "restart", "start", "stop"), verb


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
