"""docs/broker.md: all commands run in order on two hosts, which are directories with addresses of the loopback network.

`systemctl` is the stand-in of `systemctl.py`, which runs the units. `docker` and `useradd` only check their arguments.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tornlog.store.broker.remoting_client import RemotingClient
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.real.world import real_world

from . import systemctl

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "broker.md").read_text()
_BLOCK = re.compile(
    r"^```sh\n# (?P<where>on [^:\n]*|in a checkout)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_PATH = re.compile(r"(?<![\w.])/(?=(?:opt|etc|var|backup)/)")
_HOSTS = {"on a": "a", "on b": "b", "on a and b": "ab", "on a, then on b": "ab", "on b, then on a": "ba"}
SMALL = "mapedFileSizeCommitLog=1048576\nmaxHashSlotNum=1000\nmaxIndexNum=4000\nregisterNameServerPeriod=10000\n"
TOPIC = "Orders"
ACKNOWLEDGED, WITHOUT_SLAVE = 0, 11
"""SUCCESS, and SLAVE_NOT_AVAILABLE."""


class Host:
    """A directory that stands for a host."""

    def __init__(self, root: Path, address: str, peer: str, wheel: Path, python: Path) -> None:
        """python: that of an environment with the packages that tornlog needs. Hosts share `backup`."""
        self.root, self.address, self._peer = root, address, peer
        programs = self.root / "bin"
        programs.mkdir(parents=True)
        (self.root / "etc/systemd/system").mkdir(parents=True)
        (self.root / "opt").mkdir()
        (self.root / "backup").symlink_to(root.parent / "backup")
        (self.root / "checkout").mkdir()
        (self.root / "checkout/dist").symlink_to(wheel.parent)
        (self.root / "checkout/docs").symlink_to(DOCS)
        scripts = {
            "systemctl": f'exec {sys.executable} {systemctl.__file__} {self.root} "$@"',
            "useradd": '[ "$*" = "--system --uid 10911 tornlog" ]',
            "docker": f'[ "$1" = run ] || [ -f "$3" ] && echo "$1" >>{self.root}/docker',
            "python3": f'[ "$1 $2" = "-m venv" ] && exec cp -a {python.parents[1]} "$3"',
        }
        for program, script in scripts.items():
            (programs / program).write_text(f"#!/bin/sh\n{script}\n")
            (programs / program).chmod(0o755)

    def run(self, text: str) -> str:
        """Run commands of the page as root of this host would. Return their output."""
        text = _PATH.sub(f"{self.root}/", text).replace("-o tornlog -g tornlog ", "")
        text = text.replace("brokerName=orders\n", f"brokerName=orders\n{SMALL}").replace(
            "dist/tornlog-0.2.0", "dist/tornlog-0.1.0"
        )
        variables = {
            "PATH": f"{self.root}/bin:{os.defpath}",
            "ME": self.address,
            "PEER": self._peer,
            "PIP_NO_INDEX": "1",
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.root / "checkout",
            env={"HOME": str(self.root), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        logs = "".join(log.read_text()[-2_000:] for log in self.root.glob("*.log"))
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{logs}"
        return done.stdout

    def lose(self) -> None:
        """Kill the processes of this host."""
        for one in (self.root / "run").glob("*"):
            with suppress(ProcessLookupError):
                os.kill(int(one.read_text()), signal.SIGKILL)

    def send(self, count: int) -> list[tuple[int, bytes]]:
        """Send messages; return the code of each answer, and the body."""
        fields = {"a": "sellers", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0", "i": ""}
        sent = []
        with closing(RemotingClient(real_world(), f"{self.address}:10911")) as client:
            for number in range(count):
                body = f"<{self.address} {time.monotonic_ns()} {number}>".encode()
                sent.append((client.invoke(RemotingCommand(310, 0, ext_fields=fields, body=body), 30_000).code, body))
        return sent

    def stored(self) -> bytes:
        """Return the records of the queue, one after another."""
        pull = {"consumerGroup": "audit", "topic": TOPIC, "queueId": "0", "maxMsgNums": "32", "sysFlag": "4"}
        pull |= {"commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0"}
        found, at = b"", "0"
        with closing(RemotingClient(real_world(), f"{self.address}:10911")) as client:
            while True:
                answer = client.invoke(RemotingCommand(11, 0, ext_fields=pull | {"queueOffset": at}), 30_000)
                if answer.code != ACKNOWLEDGED:
                    return found
                found, at = found + answer.body, answer.ext_fields["nextBeginOffset"]

    def await_stored(self, bodies: list[bytes]) -> None:
        end = time.monotonic() + 60
        while missing := [body for body in bodies if body not in self.stored()]:
            assert time.monotonic() < end, missing
            time.sleep(0.2)


@pytest.fixture
def hosts(tmp_path: Path, wheel: Path, bare_python: Path) -> Iterator[dict[str, Host]]:
    # Ports on the page are fixed, so each run has addresses of its own.
    network = f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
    (tmp_path / "backup").mkdir()
    made = {
        "a": Host(tmp_path / "a", f"{network}.11", f"{network}.12", wheel, bare_python),
        "b": Host(tmp_path / "b", f"{network}.12", f"{network}.11", wheel, bare_python),
    }
    yield made
    for host in made.values():
        host.lose()


def after(heading: str) -> list[tuple[str, str]]:
    """Return hosts and commands of the blocks of a section."""
    (section,) = re.findall(rf"^##+ {heading}\n(.*?)(?=^##+ |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return [(block["where"], block["text"]) for block in _BLOCK.finditer(section)]


SECTIONS = (
    "Install",
    "Back up and restore",
    "Upgrade, and the way back",
    "Promote the slave",
    "Bring back the old master",
)


def test_every_block_of_commands_names_its_hosts() -> None:
    blocks = [block for heading in (*SECTIONS, "In a container") for block in after(heading)]
    assert len(blocks) == PAGE.count("```sh\n") >= 15
    assert {where for where, _ in blocks} <= {*_HOSTS, "in a checkout"}


@pytest.mark.slow
def test_a_pair_is_installed_backed_up_upgraded_lost_promoted_and_repaired_as_on_the_page(
    hosts: dict[str, Host],
) -> None:
    a, b = hosts["a"], hosts["b"]

    def run(blocks: list[tuple[str, str]]) -> list[str]:
        return [hosts[name].run(text) for where, text in blocks for name in _HOSTS[where]]

    a.run(after("In a container")[0][1])
    assert (a.root / "docker").read_text() == "build\nrun\n"
    run(after("Install"))
    first = a.send(5)
    assert {code for code, _ in first} == {ACKNOWLEDGED}
    kept = [body for _, body in first]
    # The slave copies new topics within ten seconds.
    b.run(f"until grep -q {TOPIC} /var/lib/tornlog/store/config/topics.json; do sleep 0.2; done")

    backup, restore = after("Back up and restore")
    run([backup])
    later = a.send(3)
    assert {code for code, _ in later} == {ACKNOWLEDGED}
    run([restore])
    a.await_stored(kept)
    assert not any(body in a.stored() for _, body in later), "these are newer than the backup"

    run(after("Upgrade, and the way back"))
    assert (a.root / "opt/tornlog").resolve().name == "tornlog-0.1.0"
    more = a.send(4)
    assert {code for code, _ in more} == {ACKNOWLEDGED}
    kept += [body for _, body in more]

    # The slave is cut off, so the master's log ends with messages that only the master has.
    b.run("systemctl stop tornlog")
    alone = a.send(2)
    assert {code for code, _ in alone} == {WITHOUT_SLAVE}
    a.lose()
    b.run("systemctl start tornlog")
    (_, seen) = run(after("Promote the slave"))
    assert "replicated: no slave" in seen
    b.await_stored(kept)
    kept += [body for _, body in b.send(3)]

    ask, reseed, dump, stop, promote, follow = after("Bring back the old master")
    assert "following: diverged" in run([ask])[0]
    run([reseed])
    a.await_stored([])
    listed = [json.loads(line) for line in run([dump])[0].splitlines()]
    assert {body.decode() for _, body in alone} <= {one.get("body") for one in listed}
    more = b.send(2)
    assert {code for code, _ in more} == {ACKNOWLEDGED}
    kept += [body for _, body in more]

    run([stop, promote, follow])
    a.await_stored(kept)
    assert {code for code, _ in a.send(2)} == {ACKNOWLEDGED}
    for host in hosts.values():
        host.run("systemctl stop tornlog tornlog-names")
