"""Probed writers: tornlog's own writers lose no announced result in a power cut on strict POSIX.

Each program announces a result with a line, which is its promise. It writes into several levels of new directories.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

STORE = """
    import sys
    from tornlog.store.config import FlushDiskType, StoreConfig
    from tornlog.store.formats.messages import Message
    from tornlog.store.message_store import MessageStore
    from tornlog.store.real.world import real_world
    config = StoreConfig(
        sys.argv[1],
        store_path_commit_log=sys.argv[2],
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
        mapped_file_size_commit_log=4096,
        mapped_file_size_consume_queue=200,
        max_hash_slot_num=4,
        max_index_num=8,
    )
    store = MessageStore(real_world(), config)
    store.load()
    store.start()
    print(store.put_message(Message.create("Orders", b"hello", keys="k")).status.value, flush=True)
    store.shutdown()
    """
SETTINGS = """
    import sys
    from pathlib import Path
    from tornlog.store.broker.acl.plain_acl import AccessControl
    from tornlog.store.broker.broker_config import BrokerConfig
    from tornlog.store.broker.limits import ServerLimits
    from tornlog.store.broker.serve_names import ServedNameServer
    from tornlog.store.broker.topics import SubscriptionGroupConfig, SubscriptionGroupManager
    from tornlog.store.config import StoreConfig
    from tornlog.store.message_store import MessageStore
    from tornlog.store.services.consumer_offsets import ConsumerOffsetManager
    from tornlog.store.real.world import real_world
    from tornlog.store.settings.conf_file import ConfFile
    world = real_world()
    sizes = {"mapped_file_size_commit_log": 4096, "mapped_file_size_consume_queue": 200}
    config = StoreConfig("new/mq", message_index_enable=False, **sizes)
    store = MessageStore(world, config)
    store.load()
    offsets = ConsumerOffsetManager(world, config.config_directory)
    offsets.commit_offset("group", "Orders", 0, 7)
    offsets.persist()
    print("offsets", flush=True)
    groups = SubscriptionGroupManager(world, config.config_directory, BrokerConfig())
    groups.put("group", SubscriptionGroupConfig("group"))
    print("groups", flush=True)
    ConfFile(world.files, "broker.conf").write({"deleteWhen": "05"})
    print("conf", flush=True)
    acl = AccessControl(world, "plain_acl.yml", lambda line: None)
    acl.edit_file(lambda text: text.replace("12345678", "87654321"))
    print("acl", flush=True)
    names = ServedNameServer(world, "new/names", ServerLimits(), emit=lambda line: None)
    names.start(["127.0.0.1:0"])
    names.names.kv.put("namespace", "key", "kept")
    print("names", flush=True)
    names.shutdown()
    store.close()
    """
COMMAND = """
    import sys
    from tornlog.__main__ import application
    done, *arguments = sys.argv[1:]
    try:
        application()(arguments)
    except SystemExit as end:
        assert end.code in (0, 1), end.code
    print(done, flush=True)
    """
ACL = """
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
"""


def probe(place: Path, program: str, check: str, arguments: list[str], start: Path | None = None) -> str:
    """Probe a program in a separate process; return the output. The program must make a promise and keep it."""
    for name, lines in (("program.py", program), ("check.py", check)):
        (place / name).write_text(dedent(lines))
    begin = [] if start is None else ["--start", str(start)]
    command = [
        *(sys.executable, "-m", "tornlog", "probe", "--record", "calls", "--disk", "strict-posix", "--limit", "48"),
        *("--check", str(place / "check.py"), *begin, "--", sys.executable, str(place / "program.py"), *arguments),
    ]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert ", 0 promises" not in done.stdout
    assert "every promise held" in done.stdout
    return done.stdout


@pytest.mark.ci
@pytest.mark.parametrize(
    ("root", "log"),
    [("mq", ""), ("data/new/mq", ""), ("there/mq", ""), ("there", "disk-1/commitlog,new/disk-2/commitlog")],
)
def test_an_acknowledged_message_survives_for_any_store_and_log_directory(tmp_path: Path, root: str, log: str) -> None:
    (tmp_path / "start" / "there").mkdir(parents=True)
    check = """
        def check(directory, acknowledged):
            logs = directory.rglob("commitlog/00000000000000000000")
            if "PUT_OK" in acknowledged and not any(b"hello" in log.read_bytes() for log in logs):
                yield "the message is gone"
        """
    probe(tmp_path, STORE, check, [root, log], tmp_path / "start")


@pytest.mark.ci
def test_stored_settings_and_offsets_survive(tmp_path: Path) -> None:
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "broker.conf").write_text("deleteWhen=04\n")
    (tmp_path / "start" / "plain_acl.yml").write_text(ACL)
    check = """
        FILES = {
            "offsets": ("new/mq/config/consumerOffset.json", '7'),
            "groups": ("new/mq/config/subscriptionGroup.json", '"group"'),
            "conf": ("broker.conf", "deleteWhen=05"),
            "acl": ("plain_acl.yml", "87654321"),
            "names": ("new/names/kvConfig.json", "kept"),
        }
        def check(directory, acknowledged):
            for name in acknowledged:
                path, text = FILES[name]
                if not (directory / path).exists() or text not in (directory / path).read_text():
                    yield f"{name} is gone"
            for names in (("broker.conf",), ("plain_acl.yml", "plain_acl.yml.bak")):
                if not any((directory / one).exists() for one in names):
                    yield f"{names[0]} has no version left"
        """
    printed = probe(tmp_path, SETTINGS, check, [], tmp_path / "start")
    assert "5 promises" in printed


@pytest.mark.ci
@pytest.mark.parametrize("how", [[], ["--master", "in-process"]])
def test_a_rebuilt_store_without_its_marker_is_complete(tmp_path: Path, how: list[str]) -> None:
    old = tmp_path / "start" / "old"
    sizes = {"mapped_file_size_commit_log": 4096, "mapped_file_size_consume_queue": 200}
    config = StoreConfig(str(old), **sizes, max_hash_slot_num=4, max_index_num=8)
    store = MessageStore(real_world(), config)
    store.load()
    store.start()
    for number in range(12):
        store.put_message(Message.create("Orders", b"hello", queue_id=number % 2, keys=f"k-{number}"))
    assert store.shutdown()
    (old / "config").mkdir(exist_ok=True)
    (old / "config" / "topics.json").write_text("{}")
    shutil.rmtree(old / "index")  # file names depend on the time
    check = """
        def files(root):
            return {
                str(path.relative_to(root)): path.read_bytes()
                for part in ("commitlog", "consumequeue", "config")
                for path in (root / part).rglob("*")
                if path.is_file() and any(path.read_bytes())
            }
        def check(directory, acknowledged):
            old, new = directory / "old", directory / "new" / "out"
            is_begun = (new / "checkpoint").exists()
            if acknowledged and (new / "abort").exists():
                yield "the marker is back"
            if (acknowledged or is_begun and not (new / "abort").exists()) and files(new) != files(old):
                yield f"not whole: {sorted(files(old).keys() ^ files(new).keys())}"
            if acknowledged and not any((new / "index").glob("*")):
                yield "the index is gone"
        """
    given = ["--commit-log-size", "4096", "--consume-queue-size", "200", "--hash-slots", "4", "--index-entries", "8"]
    arguments = ["REBUILT", "rebuild", "old", "--to", "new/out", *given, *how]
    probe(tmp_path, COMMAND, check, arguments, tmp_path / "start")


@pytest.mark.ci
def test_a_finished_sweep_keeps_its_rows(tmp_path: Path) -> None:
    check = """
        import io
        import pyarrow.parquet as pq
        def check(directory, acknowledged):
            place = directory / "new" / "sweep"
            rows = 0
            for path in (place / "rows").glob("[0-9a-z]*.parquet"):
                rows += pq.read_table(io.BytesIO(path.read_bytes())).num_rows
            if acknowledged and (rows != 1 or not (place / "sweep.json").read_text()):
                yield f"{rows} rows"
        """
    arguments = ["SWEPT", "sweep", "--seeds", "1", "--scenario", "second-start-refused", "--out", "new/sweep"]
    probe(tmp_path, COMMAND, check, [*arguments, "--master", "in-process"])


FAILING = ["sync-flush-power-cut", "--mutant", "ack-before-flush"]
IS_FAILURE = """
    import json
    def failures(directory):
        found = list(directory.rglob("failures/*.json"))
        return [json.loads(path.read_text()) for path in found]
    """


@pytest.mark.ci
def test_failures_and_the_page_of_a_run_are_complete_and_survive(tmp_path: Path) -> None:
    check = f"""{IS_FAILURE}
    def check(directory, acknowledged):
        found = failures(directory)
        if acknowledged and not found:
            yield "the failure is gone"
        if acknowledged and "</html>" not in (directory / "new" / "place" / "report.html").read_text():
            yield "the page is gone"
    """
    seed = next(seed for seed in range(40) if run_seed(SCENARIOS[FAILING[0]], seed, mutant=FAILING[2]).failure)
    probe(tmp_path, COMMAND, check, ["RUN", "run", *FAILING, "--seed", str(seed), "--out", "new/place"])


@pytest.mark.ci
def test_a_failure_that_is_shrunk_in_place_is_never_a_partial_file(tmp_path: Path) -> None:
    seed = next(seed for seed in range(40) if run_seed(SCENARIOS[FAILING[0]], seed, mutant=FAILING[2]).failure)
    failure = run_seed(SCENARIOS[FAILING[0]], seed, mutant=FAILING[2]).failure
    assert failure is not None
    start = tmp_path / "start" / "failures"
    start.mkdir(parents=True)
    (start / "one.json").write_text(failure.to_json())
    check = f"""{IS_FAILURE}
    def check(directory, acknowledged):
        (found,) = failures(directory)
        if acknowledged and not found["failure"]["shrunk"]:
            yield "the smaller one is gone"
    """
    arguments = ["SHRUNK", "shrink", "failures/one.json", "--tries", "30"]
    probe(tmp_path, COMMAND, check, arguments, start.parent)
