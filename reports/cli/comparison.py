"""Comparison of a campaign with the `--json` of an earlier one: the same seeds, run by the code of two commits.

If the digests of a scenario are equal, the two commits ran the same events in every seed. If not, their behaviour
differs, even if no promise broke. Kept failures change the counts, so both runs should have `--no-corpus`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import typer

from ...scenarios.campaigns.runner import Tally
from ..quantities import count_text
from ..results.model import Lines, On, ResultBlock, ResultTable, Row

_FORMAT = "tornlog-run/1"
_ONLY_BEFORE, _ONLY_NOW = "only in the earlier campaign", "only in this campaign"
_SHOWN = On.TERMINAL | On.VERBOSE | On.SUMMARY | On.PAGE


class _EarlierScenario(msgspec.Struct):
    name: str
    seeds: int
    violations: int
    digest: str


class _Campaign(msgspec.Struct):
    format: str
    scenarios: list[_EarlierScenario]


@dataclass(frozen=True, slots=True)
class EarlierCampaign:
    """The scenarios of an earlier campaign by name."""

    place: Path
    scenarios: dict[str, _EarlierScenario]

    @classmethod
    def read(cls, place: Path) -> "EarlierCampaign":
        """Raises BadParameter if the file is not the `--json` of a campaign."""
        try:
            found = msgspec.json.decode(place.read_bytes(), type=_Campaign)
        except (OSError, msgspec.MsgspecError) as error:
            raise typer.BadParameter(f"{place}: {error}", param_hint="--against") from error
        if found.format != _FORMAT:
            message = f"{place}: format: expected {_FORMAT}, found {found.format}"
            raise typer.BadParameter(message, param_hint="--against")
        return cls(place, {one.name: one for one in found.scenarios})

    def blocks(self, tallies: Sequence[Tally]) -> list[ResultBlock]:
        """Return the table of scenarios that differ, and lines about the others."""
        rows = self.to_json(tallies)
        both = [one for one in rows if one["change"] not in (_ONLY_BEFORE, _ONLY_NOW)]
        table = [
            Row((one["name"], one["change"], one["before"], one["now"]), is_bad=one["now"] > one["before"])
            for one in both
            if one["change"] != "same"
        ]
        title = f"Compared with {self.place}"
        same = f"{len(both) - len(table)} of {count_text(len(both), 'scenario')} ran the same events in every seed"
        columns = ("scenario", "change"), ("broken\nbefore", "broken\nnow")
        lines = [f"{title}: {same}"]
        lines += (
            f"Not compared, {change}: {', '.join(names)}"
            for change in (_ONLY_BEFORE, _ONLY_NOW)
            if (names := [one["name"] for one in rows if one["change"] == change])
        )
        return [ResultTable(title, _SHOWN, "against", "", *columns, table), Lines("", _SHOWN, lines=lines)]

    def to_json(self, tallies: Sequence[Tally]) -> list[dict[str, Any]]:
        """Return name, change, and broken seeds before and now of each scenario. A campaign without it has None."""
        found: list[dict[str, Any]] = []
        for tally in tallies:
            name, before = tally.scenario.name, self.scenarios.get(tally.scenario.name)
            change = _ONLY_NOW if before is None else _change_text(before, tally)
            broken_before = None if before is None else before.violations
            found.append({"name": name, "change": change, "before": broken_before, "now": tally.violations})
        ran = {tally.scenario.name for tally in tallies}
        gone = (each for each in self.scenarios.values() if each.name not in ran)
        found += ({"name": each.name, "change": _ONLY_BEFORE, "before": each.violations, "now": None} for each in gone)
        return found


def _change_text(before: _EarlierScenario, now: Tally) -> str:
    if before.seeds != now.seeds:
        return f"{count_text(before.seeds, 'seed')} before, now {now.seeds:,}"
    if before.digest == now.digest:
        return "same"
    if now.violations == before.violations:
        return "other events"
    return "breaks more" if now.violations > before.violations else "breaks less"
