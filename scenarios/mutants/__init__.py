"""Mutants: known bugs of the store, which the oracle must find."""

from importlib import import_module
from pkgutil import iter_modules

from ..claims.scenario import HAS_ACCOUNTS, HAS_BROKER
from . import bugs
from .mutant import Mutant

OF_BROKERS = (
    *("access", "answers", "broker_clients", "broker_replication", "broker_settings", "brokers", "client_calls"),
    *("client_requests", "client_variety", "group_changes", "late_answers", "name_server_answers", "name_servers"),
    *(
        "filters",
        "operators",
        "pulls",
        "queue_figures",
        "registration",
        "request_fields",
        "request_forms",
        "retries",
        "simultaneous",
        "slaves",
    ),
)
"""Bugs of the broker. They need the broker extra; those of `access` need PyYAML, too."""


def _collect_mutants() -> dict[str, Mutant]:
    mutants = [
        mutant
        for module in iter_modules(bugs.__path__)
        if (HAS_BROKER or module.name not in OF_BROKERS) and (HAS_ACCOUNTS or module.name != "access")
        for mutant in vars(import_module(f".{module.name}", bugs.__name__)).values()
        if isinstance(mutant, Mutant)
    ]
    by_id = {mutant.id: mutant for mutant in sorted(mutants, key=lambda mutant: mutant.id)}
    assert len(by_id) == len(mutants), "two mutants have the same id"
    return by_id


MUTANTS: dict[str, Mutant]


def __getattr__(name: str) -> dict[str, Mutant]:
    """Collect `MUTANTS` at the first use. That takes as long as many runs, and most commands apply no mutant."""
    if name != "MUTANTS":
        raise AttributeError(name)
    found = globals()[name] = _collect_mutants()
    return found
