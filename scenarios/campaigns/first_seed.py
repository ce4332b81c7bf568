"""First seed of a timed campaign: depends on commit and day in CI, else random.

If every timed campaign started at seed 0, each night would repeat mostly the same seeds.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

SEEDS = 1_000_000_000
"""The number of possible first seeds: nine digits.

Two campaigns of a million seeds each overlap with a probability of about 1 in 500.
"""
_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILDKITE_COMMIT", "CIRCLE_SHA1")
"""Environment variables with the commit hash, in GitHub, GitLab, Jenkins, Buildkite and CircleCI."""


@dataclass(frozen=True, slots=True)
class FirstSeed:
    """A first seed, with a text that explains its origin."""

    seed: int
    origin: str

    def __post_init__(self) -> None:
        assert 0 <= self.seed < SEEDS, self.seed


def draw_first_seed(environment: Mapping[str, str] = os.environ, day: str | None = None) -> FirstSeed:
    """Choose a first seed. In CI the seed depends on commit and date (UTC), so a repeated job runs the same seeds."""
    commit = next((environment[name] for name in _COMMITS if environment.get(name)), "")
    if not commit:
        return FirstSeed(secrets.randbelow(SEEDS), "at random")
    day = day or datetime.now(UTC).date().isoformat()
    drawn = int.from_bytes(blake2b(f"{commit} {day}".encode(), digest_size=8).digest())
    return FirstSeed(drawn % SEEDS, f"from commit {commit[:12]} and {day}")
