"""Coverage-guided fuzzing by atheris, which looks at the branches that inputs take: `tornlog fuzz --engine atheris`.

atheris instruments modules as they are imported and ends its process when it is done, so it has one of its own: see
`covered_process`. What that finds is made small and told here, as what our own engine finds is.
"""

import json
import subprocess
import sys
import tempfile
from base64 import b64decode
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .campaign import FuzzReport, FuzzSettings, applied_fuzzed, finding_of
from .judging import FuzzViolation, address_space_limited

_PROCESS = "tornlog.scenarios.fuzz.covered_process"
_LAST_WORDS = 4_000


def is_installed() -> bool:
    """Return whether atheris is there."""
    return find_spec("atheris") is not None


def fuzz_covered(settings: FuzzSettings) -> FuzzReport:
    """Fuzz one format in a process of atheris. Raises RuntimeError with its last words if that does not end well."""
    with tempfile.TemporaryDirectory(prefix="tornlog-fuzz-") as scratch:
        counts, found = _run_process(settings, Path(scratch))
    with applied_fuzzed(settings.mutant), address_space_limited():
        findings = tuple(
            finding_of(
                settings,
                FuzzViolation(line["signature"], line["expected"], line["found"]),
                b64decode(line["input"]),
                line["number"],
            )
            for line in found
        )
    return FuzzReport(settings.name, findings=findings, **counts)


def _run_process(settings: FuzzSettings, scratch: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run the process to its end; return its counts, and a line for each finding."""
    corpus = settings.corpus_directory or scratch / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    results = scratch / "results"
    task = {
        **asdict(settings),
        "out": None,
        "corpus": str(corpus.absolute()),
        "seeds": str(scratch / "seeds"),
        "results": str(results),
    }
    done = subprocess.run(
        [sys.executable, "-m", _PROCESS, json.dumps(task)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        cwd=scratch,
        check=False,
    )
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    if done.returncode or not lines or "counts" not in lines[-1]:
        raise RuntimeError(f"atheris ended with {done.returncode}: {done.stderr[-_LAST_WORDS:]}")
    *found, last = lines
    return last["counts"], found
