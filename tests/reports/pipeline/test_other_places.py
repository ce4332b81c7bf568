import getpass
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from tests.conformance.maven import JavaProgram, java_program
from tornlog.reports.pipeline.analysis.analysis import analyse_rows, find_sweep, rows_of
from tornlog.reports.pipeline.audit.audit import audit
from tornlog.reports.pipeline.place import is_temporary_name, make_directory, open_place, whole_file
from tornlog.reports.pipeline.rebuild.rebuilding import rebuild_with
from tornlog.reports.pipeline.spark.engine import InProcessEngine, SparkEngine
from tornlog.reports.pipeline.spark.session import session
from tornlog.reports.pipeline.sweep.request import SweepRequest
from tornlog.reports.pipeline.sweep.sweep import run_sweep
from tornlog.reports.pipeline.sweep.table import Table

pytestmark = pytest.mark.slow

NAME = "clean-shutdown"
SECONDS_MAX = 120.0
HADOOP = [f"org.apache.hadoop:hadoop-client-{part}:3.4.1" for part in ("minicluster", "api", "runtime")]
OF_A_USER = {"AWS_ACCESS_KEY_ID": "user", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


def spark_of_a_user() -> AbstractContextManager[SparkSession]:
    """Start a session whose tasks sign their requests.

    Tasks have the environment of Spark's Java, which an earlier test may have started without the keys. Unsigned
    requests can create an object, but not replace it.
    """
    return session("local[2]", config={f"spark.executorEnv.{name}": value for name, value in OF_A_USER.items()})


def until_heard(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert server.poll() is None, "the server has ended"
            assert time.monotonic() < deadline, "the server is not heard"
            time.sleep(0.1)
        else:
            return


@pytest.fixture(scope="module")
def s3_options() -> Iterator[str]:
    """The address of the S3 server, as URI options."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until_heard(port, server)
            yield f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
        finally:
            server.kill()


@pytest.fixture(scope="module")
def small_cluster(
    fetched: Callable[[Callable[[], JavaProgram]], JavaProgram], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., "AbstractContextManager[subprocess.Popen[str]]"]:
    """Start Hadoop's name nodes and a data node. They end with the context."""
    text = Path(__file__).with_name("SmallCluster.java").read_text("utf-8")
    made = fetched(lambda: java_program("hdfs", HADOOP, {"SmallCluster.java": text}))

    @contextmanager
    def start(*options: str) -> "Iterator[subprocess.Popen[str]]":
        command = [made.java, "-cp", made.class_path, "SmallCluster", str(tmp_path_factory.mktemp("hdfs")), *options]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, text=True, **pipes) as server:  # type: ignore[call-overload]
            try:
                yield server
            finally:
                server.stdin.close()

    return start


@pytest.fixture(scope="module")
def hdfs(small_cluster: Callable[..., "AbstractContextManager[subprocess.Popen[str]]"]) -> Iterator[str]:
    """The URI of a small HDFS."""
    with small_cluster() as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert address, "HDFS did not start"
        yield f"hdfs://{address}"


@pytest.fixture(params=["S3", "HDFS"])
def place_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], str]:
    """Return a function that returns a new directory or bucket by name."""
    directory = f"of-{tmp_path.name.replace('_', '-')}".lower()[:60].rstrip("-")
    for name, value in OF_A_USER.items():
        monkeypatch.setenv(name, value)
    if request.param == "HDFS":
        uri = request.getfixturevalue("hdfs")
        return lambda name: f"{uri}/{directory}/{name}"
    options = request.getfixturevalue("s3_options")
    system, path = open_place(f"s3://{directory}?{options}")
    system.create_dir(path)
    return lambda name: f"s3://{directory}/{name}?{options}"


def put(place: str, files: Path) -> None:
    """Copy all files of a local directory to a place."""
    system, root = open_place(place)
    for path in files.rglob("*"):
        if path.is_file():
            target = f"{root}/{path.relative_to(files)}"
            make_directory(system, target.rpartition("/")[0])
            with whole_file(system, target) as stream:
                stream.write(path.read_bytes())


def names(place: str, under: str) -> list[str]:
    """Return the names of the complete files at a place."""
    system, root = open_place(place)
    found = system.get_file_info(fs.FileSelector(f"{root}/{under}", allow_not_found=True))
    return sorted(one.base_name for one in found if not is_temporary_name(one.base_name))


def test_a_killed_remote_sweep_can_be_resumed_and_merged_like_a_local_one(
    place_of: Callable[[str], str], tmp_path: Path
) -> None:
    place = place_of("sweep")
    command = [sys.executable, "-m", "tornlog", "sweep", "--scenario", NAME, "--seeds", "400", "--out", place]
    command += ["--master", "in-process"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + SECONDS_MAX
        while not names(place, "rows") and running.poll() is None:
            assert time.monotonic() < deadline, "no block was done"
            time.sleep(0.02)
        os.kill(running.pid, signal.SIGKILL)
    done = len(names(place, "rows"))
    assert done
    assert Table(place).read(["seed"]).num_rows < 400, "it was killed too late"

    ended = subprocess.run([*command, "--compact"], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "all rows are in 1 file" in ended.stdout
    assert " done before" in ended.stdout
    assert names(place, "rows") == [f"{NAME}-0000000000-400.parquet"]
    here = Table(str(tmp_path / "here"))
    run_sweep(SweepRequest((NAME,), 0, 400), here, InProcessEngine())
    rows = [table.read().drop(["wall_seconds"]) for table in (Table(place), here)]
    assert rows[0].equals(rows[1])


def test_a_remote_sweep_has_the_same_analysis_as_a_local_one(place_of: Callable[[str], str], tmp_path: Path) -> None:
    places = [place_of("sweep"), str(tmp_path / "here")]
    for place in places:
        run_sweep(SweepRequest((NAME,), 0, 40, block_seeds=16), Table(place), InProcessEngine())
    with spark_of_a_user() as spark:
        there, here = (analyse_rows(rows_of(spark, [find_sweep(place)])) for place in places)
    assert there["pass_rates"].to_pylist() == here["pass_rates"].to_pylist()
    assert there["coverage"].equals(here["coverage"])
    assert there["pass_rates"].column("seeds").to_pylist()


def test_a_remote_file_whose_writer_fails_does_not_appear(place_of: Callable[[str], str]) -> None:
    place = place_of("half")
    system, root = open_place(place)
    with pytest.raises(ValueError, match="on the way"), whole_file(system, f"{root}/rows/name") as stream:  # noqa: PT012
        stream.write(b"half of it")
        raise ValueError("on the way")

    assert names(place, "rows") == []


def test_a_damaged_remote_row_file_is_named_and_written_again(place_of: Callable[[str], str]) -> None:
    place = place_of("damaged")
    request, table = SweepRequest((NAME,), 0, 8, block_seeds=4), Table(place)
    run_sweep(request, table, InProcessEngine())
    before = table.read().drop(["wall_seconds"])
    system, root = open_place(place)
    (name, _) = names(place, "rows")
    with whole_file(system, f"{root}/rows/{name}") as stream:
        stream.write(b"PAR1")

    assert set(table.files().damaged) == {name}
    assert run_sweep(request, table, InProcessEngine()).done_before == 4
    assert table.read().drop(["wall_seconds"]).equals(before)


def test_a_remote_store_is_audited_like_a_local_one(
    place_of: Callable[[str], str], source: Path, tmp_path: Path
) -> None:
    with tarfile.open(source / "tests/golden/02-multi-rollover/store.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    place = place_of("store")
    system, root = open_place(place)
    here = tmp_path / "before"
    put(place, here)

    with spark_of_a_user() as spark:
        assert audit(SparkEngine(spark.sparkContext), place).fields() == audit(InProcessEngine(), str(here)).fields()
        entries = min((here / "consumequeue").glob("*/*/*"))
        raw = entries.read_bytes()
        with whole_file(system, f"{root}/{entries.relative_to(here)}") as stream:
            stream.write(raw[:7] + bytes([raw[7] ^ 1]) + raw[8:])
        found = audit(SparkEngine(spark.sparkContext), place)
    assert (found.counts["records"], found.counts["entries"], found.counts["indexEntries"]) == (145, 145, 138)
    assert [one.promise.value for one in found.findings.violations] == ["CQ-VALID", "CQ-COMPLETE"]
    assert found.findings.violations[0].file == str(entries.relative_to(here))


def test_a_remote_store_has_the_same_tables_as_a_local_one(
    place_of: Callable[[str], str], source: Path, tmp_path: Path
) -> None:
    with tarfile.open(source / "tests/golden/02-multi-rollover/store.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    here, there = tmp_path / "before", place_of("store")
    put(there, here)

    with spark_of_a_user() as spark:
        for table in ("messages", "queue_entries", "index_entries", "checkpoint"):
            reader = spark.read.format("rocketmq").option("table", table)
            rows = [
                sorted(str(row).replace(open_place(root)[1], "") for row in reader.load(root).collect())
                for root in (there, str(here))
            ]
            assert rows[0] == rows[1] != []


def configured(directory: Path, file: str, settings: dict[str, str]) -> None:
    """Write a file of Hadoop's settings."""
    properties = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    (directory / file).write_text(f"<configuration>{''.join(properties)}</configuration>")


def test_a_file_in_a_view_of_hdfs_can_be_replaced_and_read(
    hdfs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_directory(*open_place(f"{hdfs}/under"))
    mounts = {"link./seen": f"{hdfs}/under", "linkFallback": f"{hdfs}/rest"}
    settings = {f"fs.viewfs.mounttable.all.{name}": place for name, place in mounts.items()}
    configured(tmp_path, "core-site.xml", settings)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    system, path = open_place("viewfs://all/seen/file")
    for text in (b"first", b"second"):
        with whole_file(system, path) as stream:
            stream.write(text)

    assert system.open_input_file(path).read() == b"second"
    there, under = open_place(f"{hdfs}/under")
    (found,) = there.get_file_info(fs.FileSelector(under))
    assert (found.base_name, found.size, found.mtime_ns > 0) == ("file", 6, True)


def test_a_sweep_continues_at_the_second_name_node_after_the_first_is_killed(
    small_cluster: Callable[..., "AbstractContextManager[subprocess.Popen[str]]"],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("HADOOP_USER_NAME", getpass.getuser())
    with small_cluster("pair") as server:
        assert server.stdin is not None
        assert server.stdout is not None
        addresses = server.stdout.readline().split()
        settings = {f"dfs.namenode.rpc-address.pair.{name}": one for name, one in zip("ab", addresses, strict=True)}
        settings |= {"dfs.nameservices": "pair", "dfs.ha.namenodes.pair": "a,b"}
        configured(tmp_path, "hdfs-site.xml", settings)

        place = "hdfs://pair/sweep"
        command = [sys.executable, "-m", "tornlog", "sweep", "--scenario", NAME, "--seeds", "400", "--out", place]
        with subprocess.Popen([*command, "--master", "in-process"], stdout=subprocess.DEVNULL) as running:
            deadline = time.monotonic() + SECONDS_MAX
            while not names(place, "rows"):
                assert time.monotonic() < deadline, "no block was done"
                time.sleep(0.02)
            assert running.poll() is None, "the first name node was killed too late"
            server.stdin.write("\n")
            server.stdin.flush()
            assert server.stdout.readline().strip() == "taken over"
            assert running.wait(SECONDS_MAX) == 0
        assert sorted(Table(place).read(["seed"])["seed"].to_pylist()) == list(range(400))


def test_a_remote_rebuild_gives_the_same_store_as_a_local_one(
    place_of: Callable[[str], str], source: Path, tmp_path: Path
) -> None:
    with tarfile.open(source / "tests/golden/12-index-roll/store.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    old, new = (place_of(name) for name in ("old", "new"))
    here = tmp_path / "before"
    put(old, here)

    local = rebuild_with(InProcessEngine(), str(here), str(tmp_path / "local")).fields()
    with spark_of_a_user() as spark:
        assert rebuild_with(SparkEngine(spark.sparkContext), old, new).fields() == local
    system, made = open_place(new)
    found = [one for one in system.get_file_info(fs.FileSelector(made, recursive=True)) if one.type == fs.FileType.File]
    there = {one.path.removeprefix(f"{made}/"): system.open_input_file(one.path).read() for one in found}
    on_disk = {
        str(path.relative_to(tmp_path / "local")): path.read_bytes()
        for path in (tmp_path / "local").rglob("*")
        if path.is_file()
    }
    for files in (there, on_disk):  # names of index files depend on the clock
        names = sorted(name for name in files if name.startswith("index/"))
        for number, name in enumerate(names):
            files[f"index {number}"] = files.pop(name)
    assert there == on_disk
