"""Sites: all places where an operator can change the store, under stable names.

A name has operator, function and number: `drop-sync:flush.FlushCommitLogService.finish_remaining_work#1`. Numbers
count within one function, so an edit elsewhere changes none of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tornlog.scenarios.mutants.mutant import Mutant

from .change import Change
from .code import Subject, patches_of, subjects_of, syntax_of
from .components import COMPONENTS, LEFT_OUT, Component
from .operators import OPERATORS, Operator
from .vocabulary import Vocabulary, vocabulary_of

_MODULE = __name__.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Site:
    """A possible change."""

    id: str
    operator: Operator
    component: Component
    subject: Subject
    change: Change

    @property
    def summary(self) -> str:
        """Describe the place and the change."""
        file = f"{self.subject.module.replace('.', '/')}.py:{self.change.line}"
        return f"{file} {self.subject.tree.name}: {self.change.old} → {self.change.new}"

    def mutant(self) -> Mutant:
        """Return the change as a mutant, with the needs of its component and its operator."""
        return Mutant(
            f"{_MODULE}:{self.id}",
            self.summary,
            patches_of(self.subject, self.change),
            (),
            self.component.narrow(self.operator.needs),
        )


@cache
def all_sites() -> tuple[Site, ...]:
    """Return all sites: by component, function, operator and place."""
    words = _vocabulary()
    return tuple(
        site
        for component in COMPONENTS.values()
        for module in component.modules
        for subject in subjects_of(module)
        if (subject.owner or subject.tree.name) not in LEFT_OUT
        for operator in OPERATORS.values()
        for site in _sites_in(component, subject, operator, words)
    )


@cache
def _vocabulary() -> Vocabulary:
    modules = [module for component in COMPONENTS.values() for module in component.modules]
    return vocabulary_of(map(syntax_of, modules))


def _sites_in(component: Component, subject: Subject, operator: Operator, words: Vocabulary) -> Iterator[Site]:
    changes = sorted(operator.sites(subject.tree, words), key=lambda change: change.line)
    for number, change in enumerate(changes, 1):
        yield Site(f"{operator.name}:{subject.name}#{number}", operator, component, subject, change)
