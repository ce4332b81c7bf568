"""Coverage-guided fuzzing by atheris: `tornlog fuzz --engine atheris`.

atheris instruments modules at import and finally ends its process, so it runs in a separate process
(`covered_process`). This module minimises and reports the findings of that process.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from .campaign import FuzzReport, FuzzSettings, applied_fuzz_mutant, finding_of
from .engine import FirstFailure
from .judging import address_space_limited

_PROCESS = "tornlog.scenarios.fuzz.covered_process"
_LAST_WORDS = 4_000


def is_installed() -> bool:
    return find_spec("atheris") is not None


@dataclass(frozen=True, slots=True)
class CoveredRun:
    """The result of the atheris process."""

    counts: dict[str, Any]
    """The fields of FuzzReport by name."""
    found: list[FirstFailure]


def fuzz_covered(settings: FuzzSettings) -> FuzzReport:
    """Fuzz one format in an atheris process. If that process fails, raise RuntimeError with the end of its stderr."""
    with tempfile.TemporaryDirectory(prefix="tornlog-fuzz-") as scratch:
        run = _run_process(settings, Path(scratch))
    with applied_fuzz_mutant(settings.mutant), address_space_limited():
        findings = tuple(finding_of(settings, first) for first in run.found)
    return FuzzReport(settings.name, findings=findings, **run.counts)


def _run_process(settings: FuzzSettings, scratch: Path) -> CoveredRun:
    corpus = settings.corpus_directory or scratch / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    results = scratch / "results"
    paths = {"corpus": str(corpus.absolute()), "seeds": str(scratch / "seeds"), "results": str(results)}
    done = subprocess.run(
        [sys.executable, "-m", _PROCESS, json.dumps({**asdict(settings), "out": None, **paths})],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        cwd=scratch,
        check=False,
    )
    if done.returncode or not results.exists():
        raise RuntimeError(f"atheris ended with {done.returncode}: {done.stderr[-_LAST_WORDS:]}")
    return msgspec.json.decode(results.read_bytes(), type=CoveredRun)
