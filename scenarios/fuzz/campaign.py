"""Fuzzing campaign: fuzzes one format and minimises the findings."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

from ...faults.simulation.artefact import ArtefactError
from ..campaigns.kept_files import keep_file
from ..campaigns.worker_pool import is_stop_wanted
from .engine import FirstFailure, Fuzzer, FuzzTally, minimised_input, read_inputs, write_inputs
from .judging import FuzzFailure, FuzzViolation, address_space_limited, judge_within_limits
from .mutants import find_fuzz_mutant
from .targets import TARGETS

MINIMISING_SECONDS_MAX = 10.0
_PROGRESS_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class FuzzSettings:
    """Options of a campaign. `seconds` or `inputs` is required."""

    name: str
    seed: int
    seconds: float | None = None
    inputs: int | None = None
    mutant: str | None = None
    out: Path | None = None

    def __post_init__(self) -> None:
        assert self.seconds is not None or self.inputs is not None, "a campaign has an end"

    @property
    def corpus_directory(self) -> Path | None:
        return None if self.out is None else self.out / "corpus" / self.name


@dataclass(frozen=True, slots=True)
class FuzzReport:
    """The result of fuzzing one format."""

    name: str
    inputs: int
    accepted: int
    refused: int
    broken: int
    outcomes: int
    corpus: int
    seconds: float
    cpu_seconds: float
    findings: tuple[FuzzFailure, ...]

    def __post_init__(self) -> None:
        assert self.accepted + self.refused + self.broken == self.inputs, self

    @property
    def per_second(self) -> float:
        return self.inputs / self.seconds if self.seconds else 0.0


def applied_fuzz_mutant(name: str | None) -> AbstractContextManager[object]:
    mutant = None if name is None else find_fuzz_mutant(name)
    return nullcontext() if mutant is None else mutant.applied()


def fuzz_format(
    settings: FuzzSettings,
    on_progress: Callable[[FuzzTally], None] = lambda tally: None,
    is_stop_wanted: Callable[[], bool] = is_stop_wanted,
) -> FuzzReport:
    """Fuzz one format, and save the corpus if `settings.out` is set.

    is_stop_wanted: called between rounds. True ends the campaign without minimisation.
    """
    fuzzer = Fuzzer(TARGETS[settings.name](), settings.seed)
    tally, directory = fuzzer.tally, settings.corpus_directory
    began, cpu_began = perf_counter(), process_time()
    shown = [began]

    def stop() -> bool:
        now = perf_counter()
        if now - shown[0] > _PROGRESS_SECONDS:
            shown[0] = now
            on_progress(tally)
        return is_stop_wanted() or (settings.seconds is not None and now - began > settings.seconds)

    with applied_fuzz_mutant(settings.mutant), address_space_limited():
        if directory is not None and settings.out is not None:
            fuzzer.judge_inputs(
                finding.raw for finding in kept_findings(settings.out) if finding.target == settings.name
            )
            fuzzer.judge_inputs(read_inputs(directory))
        fuzzer.run(settings.inputs, stop)
        seconds, cpu_seconds = perf_counter() - began, process_time() - cpu_began
        findings = tuple(finding_of(settings, found, is_stop_wanted) for found in tally.found.values())
    if directory is not None:
        write_inputs(tally.corpus, directory)
    return FuzzReport(settings.name, **tally.counts(), seconds=seconds, cpu_seconds=cpu_seconds, findings=findings)


def finding_of(
    settings: FuzzSettings, first: FirstFailure, is_stop_wanted: Callable[[], bool] = is_stop_wanted
) -> FuzzFailure:
    """Minimise the input of a finding. The campaign's mutant must be active."""
    target, began, breach = TARGETS[settings.name](), perf_counter(), first.breach

    def stop() -> bool:
        return is_stop_wanted() or perf_counter() - began > MINIMISING_SECONDS_MAX

    small = minimised_input(target, first.raw, breach, stop=stop)
    assert len(small) <= len(first.raw), (len(small), len(first.raw))
    judged = judge_within_limits(target, small)
    if isinstance(judged, FuzzViolation) and judged.signature == breach.signature:
        breach = judged
    return FuzzFailure(settings.name, settings.seed, settings.mutant, first.number, breach, small, first.raw)


def kept_findings(out: Path) -> list[FuzzFailure]:
    """Return the findings of earlier runs. Failure files of other commands are ignored."""
    found = []
    for path in sorted((out / "failures").glob("*.json")):
        with suppress(ArtefactError):
            found.append(FuzzFailure.from_json(path.read_text("utf-8", "replace")))
    return found


def write_findings(findings: Iterable[FuzzFailure], out: Path) -> dict[str, Path]:
    directory, paths = out / "failures", {}
    for finding in findings:
        path = paths[finding.name] = directory / f"{finding.name}.json"
        keep_file(path, finding.to_json())
    return paths
