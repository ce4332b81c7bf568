"""Conformance campaigns: compare both stores over many seeds and writers."""

import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tornlog.faults.simulation.artefact import COMPARE, read_artefact, write_artefact
from tornlog.scenarios.campaigns.worker_pool import worker_pool

from .cases import WRITTEN_HERE, CaseResult, DirectoryCase, case_written_here, cases_written_there, compare
from .maven import JavaProgram
from .real_store import STORES_AT_A_TIME, RealStore, config_in_directory, config_of_settings, settings_of

_CASES_PER_PROCESS = 120
"""Cases per process of the real store, because stopped stores do not release all memory and threads."""


@dataclass(slots=True)
class ConformanceReport:
    """The sum of all comparisons."""

    outcomes: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    """Number of cases by writer and kind of end, and by outcome."""
    disks: Counter[tuple[str, str]] = field(default_factory=Counter)
    deviations: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of cases with a deviation, by writer and name."""
    records: int = 0
    answers: int = 0
    """Puts that the real store answered OK. Our store must have each of them."""
    failures: list[CaseResult] = field(default_factory=list)

    def add(self, compared: CaseResult) -> None:
        case = compared.case
        key = (case.writer, case.kind)
        self.outcomes.setdefault(key, Counter())[compared.outcome] += 1
        self.disks[case.kind, case.disk] += 1
        shown = {one.deviation.name for one in compared.differences if one.deviation}
        self.deviations.update((case.writer, name) for name in shown)
        self.records += compared.records
        if compared.is_opened:
            self.answers += sum(answer.get("status") == "PUT_OK" for answer in case.answers)
        if compared.unexplained:
            self.failures.append(compared)

    @property
    def cases(self) -> int:
        return sum(outcomes.total() for outcomes in self.outcomes.values())


def run_campaign(
    files: JavaProgram,
    seeds: Sequence[int],
    writers: Sequence[str],
    *,
    version: str | None = None,
    jobs: int = 1,
    out: Path | None = None,
    on_case: Callable[[CaseResult], None] = lambda compared: None,
) -> ConformanceReport:
    """Compare the directories of every seed and writer. Failures are written below out, if given.

    version: RocketMQ's version whose bugs our writer gets."""
    campaign = ConformanceReport()
    with TemporaryDirectory(prefix="tornlog-compare-") as scratch:
        for compared in _case_results(files, seeds, writers, version, Path(scratch), jobs):
            campaign.add(compared)
            if compared.unexplained and out is not None:
                keep_case(compared, out)
            shutil.rmtree(compared.case.directory)
            on_case(compared)
    campaign.failures.sort(key=lambda one: one.case.name)
    return campaign


def _case_results(
    files: JavaProgram, seeds: Sequence[int], writers: Sequence[str], version: str | None, work: Path, jobs: int
) -> Iterator[CaseResult]:
    for writer in writers:
        for first in range(0, len(seeds), _CASES_PER_PROCESS):
            part = seeds[first : first + _CASES_PER_PROCESS]
            home = work / f"home-{writer}-{first}"
            home.mkdir()
            with RealStore(files, home) as real, ThreadPoolExecutor(STORES_AT_A_TIME) as pool:
                if writer == WRITTEN_HERE:
                    cases = _written_here(part, version, work, jobs)
                    if version is not None:  # the bugs must be removed before our store opens a directory
                        cases = iter(list(cases))
                else:
                    cases = cases_written_there(part, files, real, work)
                waiting: list[Future[CaseResult]] = [pool.submit(compare, case, real) for case in cases]
                for done in as_completed(waiting):
                    yield done.result()


def _written_here(seeds: Sequence[int], version: str | None, work: Path, jobs: int) -> Iterator[DirectoryCase]:
    directories = [work / f"{WRITTEN_HERE}-{seed}" for seed in seeds]
    for directory in directories:
        directory.mkdir()
    write = partial(case_written_here, version=version)
    if jobs <= 1:
        yield from filter(None, map(write, seeds, directories))
        return
    with worker_pool(jobs) as pool:
        yield from filter(None, pool.map(write, seeds, directories, chunksize=8))


# -- failures --------------------------------------------------------------------------------------


def keep_case(compared: CaseResult, out: Path) -> Path:
    """Write a failure below out: the directory, and a file with the differences, which is returned."""
    case = compared.case
    place = out / "failures" / case.name
    place.mkdir(parents=True, exist_ok=True)
    with tarfile.open(place / "store.tar.gz", "w:gz") as tar:
        tar.add(case.directory, arcname="store")
    file = place / "failure.json"
    document = _CaseDocument(
        case.writer,
        case.seed,
        case.kind,
        case.disk,
        case.scenario,
        settings_of(config_in_directory(case.config, Path("/store"))),
        case.config.recover_whole_log,
        list(case.answers),
        [one.to_json() for one in compared.differences],
    )
    file.write_text(write_artefact(COMPARE, document), "utf-8")
    return file


@dataclass(frozen=True, slots=True)
class _CaseDocument:
    """A case in its failure file, of the kind "compare". The directory is in store.tar.gz next to it."""

    writer: str
    seed: int
    kind: str
    disk: str
    scenario: str
    settings: dict[str, Any]
    recover_whole_log: bool
    answers: list[Any]
    differences: list[dict[str, Any]]


class CaseFileError(Exception):
    """A file is no kept failure."""


@contextmanager
def kept_case(file: Path) -> Iterator[DirectoryCase]:
    """Yield the case of a kept failure, in a new directory."""
    try:
        found = read_artefact(file.read_text("utf-8"), COMPARE, _CaseDocument)
        with TemporaryDirectory(prefix="tornlog-compare-") as scratch:
            with tarfile.open(file.with_name("store.tar.gz")) as tar:
                tar.extractall(scratch, filter="data")
            directory = Path(scratch, "store")
            yield DirectoryCase(
                *(found.writer, found.seed, found.kind, found.disk, found.scenario),
                directory=directory,
                config=config_of_settings(directory, found.settings, found.recover_whole_log),
                answers=found.answers,
            )
    except (OSError, ValueError, tarfile.TarError) as error:
        raise CaseFileError(f"{file}: {type(error).__name__}: {error}") from error
