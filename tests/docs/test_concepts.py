"""The glossary in docs/concepts.md: each term is defined once, in its place, and used elsewhere."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
GLOSSARY = (DOCS / "concepts.md").read_text()
TERMS = {
    "What decides a run": ("Seed", "Choice", "Schedule", "Task", "Core", "Scenario", "Swarm"),
    "What runs, and what fails": ("Machine", "Life", "Disk model", "Fault", "Crash point", "Crash image"),
    "How a run is judged": ("Promise", "Ledger", "Invariant", "Oracle", "Allowance", "Violation", "Outcome"),
    "After a failure": ("Failure file", "Replay", "Shrinking", "Timeline"),
    "Many runs": ("Campaign", "Mark", "Exploration", "Mutant", "Fuzzing", "Determinism check"),
}
"""Section -> the terms that it defines. Code and pages use them in these meanings."""


def test_each_term_is_defined_once_in_its_section() -> None:
    found = {}
    for section in GLOSSARY.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        found[title] = tuple(re.findall(r"^\*\*([A-Z][a-z ]+?)\.?\*\*", text, re.MULTILINE))

    assert found == TERMS


def test_each_term_is_used_on_another_page() -> None:
    pages = [DOCS.parent / "README.md", DOCS.parent / "ARCHITECTURE.md", *DOCS.glob("*.md")]
    text = " ".join(page.read_text() for page in pages if page.name != "concepts.md").lower()
    terms = [term.lower() for section in TERMS.values() for term in section]

    assert [term for term in terms if not re.search(rf"\b{term.removesuffix('ing').removesuffix('e')}", text)] == []
