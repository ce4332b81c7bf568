"""The first seed of a time budget: another one each day in CI, and at random elsewhere.

A budget that always begins at seed 0 repeats the same seeds every night, and only a fast runner gets beyond them.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

SEEDS = 1_000_000_000
"""Nine digits are short enough to type; two budgets of a million seeds overlap once in a thousand times."""
_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILDKITE_COMMIT", "CIRCLE_SHA1")
"""Variables that name the commit: GitHub, GitLab, Jenkins, Buildkite, CircleCI."""


@dataclass(frozen=True, slots=True)
class FirstSeed:
    """A drawn first seed and its origin, for a reader."""

    seed: int
    origin: str


def draw_first_seed(environment: Mapping[str, str] = os.environ, day: str | None = None) -> FirstSeed:
    """Draw a first seed. In CI it follows from commit and date (UTC), so a job that is run again has the same seeds."""
    commit = next((environment[name] for name in _COMMITS if environment.get(name)), "")
    if not commit:
        return FirstSeed(secrets.randbelow(SEEDS), "at random")
    day = day or datetime.now(UTC).date().isoformat()
    drawn = int.from_bytes(blake2b(f"{commit} {day}".encode(), digest_size=8).digest())
    return FirstSeed(drawn % SEEDS, f"from commit {commit[:12]} and {day}")
