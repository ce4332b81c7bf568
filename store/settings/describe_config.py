"""What there is to tell of every setting of a store, and of where a configuration leaves the defaults.

JSON contract, `tornlog-config/1`:

    format    "tornlog-config/1"
    settings  [{"key", "value", "default", "unit", "meaning", "own"}], every one; own: RocketMQ does not know the key
    others    the keys of the broker that the store has no use for, with their values as strings

Fields may be added under the same format; a change of meaning makes it `/2`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any, NamedTuple

from ..config import StoreConfig
from .config_meanings import MEANINGS

FORMAT = "tornlog-config/1"


class Setting(NamedTuple):
    """One row. Values are plain: an enum is its RocketMQ name."""

    key: str
    value: str | int | float | bool
    default: str | int | float | bool
    unit: str
    """What a number counts, empty for what is none."""
    meaning: str
    own: bool
    """Whether RocketMQ does not know the key."""

    @property
    def differs(self) -> bool:
        """Return whether the value is not the default."""
        return self.value != self.default


def describe(config: StoreConfig, default_root: str) -> list[Setting]:
    """Return every setting in the order of StoreConfig; default_root is what the root is by default."""
    rows = []
    for one in fields(StoreConfig):
        key = one.metadata["key"]
        default = default_root if one.default is MISSING else one.default
        unit, meaning = MEANINGS[key.name]
        value = getattr(config, one.name)
        rows.append(Setting(key.name, _plain(value), _plain(default), unit, meaning, key.own))
    return rows


def config_fields(settings: Sequence[Setting], others: Mapping[str, str]) -> dict[str, Any]:
    """Return everything as plain values: see the contract."""
    return {
        "format": FORMAT,
        "settings": [one._asdict() for one in settings],
        "others": dict(others),
    }


def spelled(value: str | int | float | bool) -> str:
    """Return a value as a broker.conf has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: object) -> str | int | float | bool:
    plain = value.value if isinstance(value, Enum) else value
    assert isinstance(plain, str | int | float | bool), plain
    return plain
