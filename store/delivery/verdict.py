"""When a producer group is asked about a half message, and when no more.

The clock is read once for each judgement, by the caller: an age that grows while it is judged passes between two rules.
Source: RocketMQ TransactionalMessageServiceImpl.check, isNeedDiscard, isNeedSkip, getImmunityTime.
"""

from dataclasses import dataclass
from enum import Enum

from ..formats.host import Host
from ..message import LOOPBACK_BROKER
from .half_message import HalfMessage


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Settings of transactions, with RocketMQ's defaults."""

    transaction_timeout_ms: int = 6_000
    """How old a half message is before its producer group is asked (transactionTimeOut)."""
    transaction_check_max: int = 15
    """How often it is asked before the half message is given up (transactionCheckMax)."""
    transaction_check_interval_ms: int = 60_000
    """How long after a pass the next one begins (transactionCheckInterval)."""
    store_host: Host = LOOPBACK_BROKER
    """The broker's address, which its own op messages come from."""


class HalfMessageVerdict(Enum):
    """What is to be done with an undecided half message."""

    TOO_YOUNG = "leave it, and all behind it, to a later pass"
    IMMUNE = "put it back without asking"
    DUE = "put it back and ask"
    HOPELESS = "give it up"


def verdict(
    half: HalfMessage, now_ms: int, config: TransactionConfig, reserved_ms: int
) -> HalfMessageVerdict:
    """Judge an undecided half message at one moment. reserved_ms: how long the store keeps messages."""
    age_ms = now_ms - half.record.born_timestamp_ms
    if half.check_times >= config.transaction_check_max or age_ms > reserved_ms:
        return HalfMessageVerdict.HOPELESS
    if half.immunity_ms is not None:
        return HalfMessageVerdict.IMMUNE if age_ms < half.immunity_ms else HalfMessageVerdict.DUE
    return (
        HalfMessageVerdict.TOO_YOUNG
        if 0 <= age_ms < config.transaction_timeout_ms
        else HalfMessageVerdict.DUE
    )
