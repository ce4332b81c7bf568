"""Corpus of a probe: tries crash points and thread orders first that failed before."""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from shlex import join

from ....faults.disk.image import Image
from ....faults.probe.crash_points import named_points
from ....faults.probe.record import ProgramRecord
from ....faults.probe.replay import Point
from ....faults.probe.report import ProbeReport
from ....faults.probe.reruns import ORDER, Reruns
from ....faults.probe.tracing.control import RunControl, depth_of
from ..corpus import CorpusOutcome, FailureCorpus
from .command import ProbeOptions

_ORDER = "thread order of "


class ProbeCorpus:
    """The stored failures of one program and check, matched with the record of this run."""

    def __init__(self, options: ProbeOptions, program: Sequence[str], record: ProgramRecord, start: Image) -> None:
        checks = (word for kind, name in options.checks.items() for word in (f"--{kind.replace('_', '-')}", name))
        place = ["--start", str(options.start)] if options.start is not None else []
        self._subject = join(["probe", *checks, *place, "--", *program])
        self._corpus = FailureCorpus(None if options.no_corpus else options.corpus, "probe")
        self._record = record
        self._start = start
        cases = self._corpus.cases(self._subject)
        self._policy = options.policy
        orders = [one for one in cases if one.startswith(_ORDER)] if options.seeds else []
        self.seeds = [seed for one in orders if self._order_of(seed := _seed_of(one)) == one]
        """Stored seeds to try first. If a seed has another thread order under this policy, it stays in the corpus."""
        self._names = [one for one in cases if not one.startswith(_ORDER)]
        points = self._points if self._names else {}
        self._gone = [name for name in self._names if name not in points]
        self.points = {points[name] for name in self._names if name in points}
        """Stored crash points to try first."""

    @cached_property
    def _points(self) -> dict[str, Point]:
        return dict(named_points(self._record, self._start))

    def _order_of(self, seed: int) -> str:
        return f"{_ORDER}{RunControl(seed=seed, depth=depth_of(self._policy, seed))}"

    def record_run(self, found: ProbeReport, reruns: Reruns | None, known: Collection[str]) -> CorpusOutcome | None:
        """Store new failures, and return the results of earlier ones. known: accepted signatures.

        Only the smallest case of each kind of breach is stored.
        """
        if found.is_of_end:
            return None
        seeds_tried: Collection[int] = () if reruns is None else reruns.seeds_tried
        passed = [name for name in self._names if self._points.get(name) in found.tried_first - found.failed_first]
        passed += [self._order_of(seed) for seed in self.seeds if seed in seeds_tried]
        return self._corpus.record_run(self._subject, self._failed(found, reruns, known), passed, self._gone)

    def _failed(self, found: ProbeReport, reruns: Reruns | None, known: Collection[str]) -> Iterator[str]:
        smallest = {group.smallest.point for signature, group in found.in_order if signature not in known}
        failed = smallest | found.failed_first
        if failed:
            yield from (name for name, point in self._points.items() if point in failed)
        if reruns is None:
            return
        yield from (self._order_of(seed) for seed in self.seeds if seed in reruns.seeds_failed)
        yield from (
            f"{_ORDER}{breach.control}"
            for (kind, signature), breach in reruns.in_order
            if kind == ORDER and signature not in known
        )


def _seed_of(case: str) -> int:
    """Parse a case such as `thread order of seed 8 (pct:4)`."""
    return int(case.removeprefix(f"{_ORDER}seed ").partition(" ")[0])
