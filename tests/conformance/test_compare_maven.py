"""Java programs are fetched and compiled once, completely or not at all."""

from pathlib import Path

import pytest

from tests.conformance import maven
from tests.conformance.maven import JavaMissing, JavaProgram, java_program
from tests.conformance.real_store import RealStore, RealStoreDied
from tests.conformance.workload import workload_of

_STUB = "#!/bin/sh\nfor each; do case $each in -DoutputDirectory=*) touch ${each#*=}/a.jar;; esac; done\n"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with a mvn that makes one jar, and a javac and java without effect."""
    place = tmp_path / "bin"
    place.mkdir()
    for name, text in (("mvn", _STUB), ("javac", "#!/bin/sh\n"), ("java", "#!/bin/sh\n")):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setattr(maven.shutil, "which", lambda name: str(place / name) if (place / name).exists() else None)
    return place


def test_a_java_program_is_compiled_once_and_then_reused(tools: Path, tmp_path: Path) -> None:
    made = java_program("p", ["g:a:1"], {"A.java": "class A {}"}, tmp_path / "cache")
    (tools / "mvn").write_text("#!/bin/sh\nexit 1\n")
    again = java_program("p", ["g:a:1"], {"A.java": "class A {}"}, tmp_path / "cache")
    assert again == made
    assert (made.jars / "a.jar").exists()
    assert (made.classes / "A.java").read_text() == "class A {}"


@pytest.mark.usefixtures("tools")
def test_a_relative_cache_path_works_from_every_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = java_program("p", ["g:a:1"], {"A.java": ""}, Path("cache"))
    monkeypatch.chdir("/")  # Java starts in another directory
    assert (made.jars / "a.jar").exists()
    assert (made.classes / "A.java").exists()


def test_other_sources_or_artifacts_give_another_compiled_program(tools: Path, tmp_path: Path) -> None:
    made = java_program("p", ["g:a:1"], {"A.java": "class A {}"}, tmp_path)
    others = [
        java_program("p", ["g:a:1"], {"A.java": "class A { }"}, tmp_path),
        java_program("p", ["g:a:2"], {"A.java": "class A {}"}, tmp_path),
    ]
    assert len({one.classes for one in (made, *others)}) == 3
    assert others[0].jars == made.jars != others[1].jars


@pytest.mark.parametrize("broken", ["mvn", "javac"])
def test_a_failed_build_leaves_no_directory(tools: Path, tmp_path: Path, broken: str) -> None:
    (tools / broken).write_text("#!/bin/sh\necho no way >&2\nexit 1\n")
    cache = tmp_path / "cache"
    with pytest.raises(JavaMissing if broken == "mvn" else RuntimeError, match="no way"):
        java_program("p", ["g:a:1"], {"A.java": ""}, cache)
    left = {path.name.partition("-")[0] for path in cache.glob("p/*")}
    assert left == ({"jars"} if broken == "javac" else set())


@pytest.mark.parametrize("missing", ["mvn", "javac", "java"])
def test_the_error_for_a_missing_tool_names_the_tool(tools: Path, tmp_path: Path, missing: str) -> None:
    (tools / missing).unlink()
    with pytest.raises(JavaMissing, match=f"{missing} is not on the PATH"):
        java_program("p", ["g:a:1"], {}, tmp_path)


def test_an_ended_process_of_the_real_store_raises_real_store_died(program: JavaProgram, tmp_path: Path) -> None:
    real = RealStore(program, tmp_path, stores=1)
    real.kill()
    with pytest.raises(RealStoreDied):
        real.ask({"do": "open"})
    real.close()


def test_an_unknown_command_is_answered_with_the_java_exception(program: JavaProgram, tmp_path: Path) -> None:
    with RealStore(program, tmp_path, stores=1) as real:
        assert "no command dance" in real.ask({"do": "dance"})["exception"]


def test_a_seed_determines_the_workload() -> None:
    assert workload_of(7) == workload_of(7)
    assert workload_of(7).producers != workload_of(8).producers
    kinds = [workload_of(seed).is_killed for seed in range(9)]
    assert kinds.count(True) == 6
    puts = [put for seed in range(20) for producer in workload_of(seed).producers for put in producer]
    assert {"batch" in put for put in puts} == {True, False}
    assert {put["sysFlag"] for put in puts} == {0, 4, 8, 12}
    configs = [workload_of(seed).config for seed in range(20)]
    assert {len(config.commit_log_directories) for config in configs} == {1, 2}
    assert {config.is_transient_store_pool_effective for config in configs} == {True, False}
    assert {config.enable_consume_queue_ext for config in configs} == {True, False}
