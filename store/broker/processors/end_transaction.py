"""Processor of END_TRANSACTION: a producer's decision about a half message.

Source: RocketMQ EndTransactionProcessor.
"""

from ...delivery.half_message import EndTransaction
from ...delivery.transaction_service import EndTransactionStatus
from ...formats.message import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK
from ...formats.remoting.command import RemotingCommand
from ..parts import BrokerParts
from ..requests import ExtFields, RequestRefusedError, ResponseCode, response_to, success
from ..router import Channel
from ..sending import PUT_CODES, put_remark

_DONE = (EndTransactionStatus.DECIDED, EndTransactionStatus.ALREADY_DECIDED)


class EndTransactionProcessor:
    """Carries out decisions."""

    def __init__(self, parts: BrokerParts) -> None:
        self._transactions = parts.transactions

    def __call__(self, request: RemotingCommand, channel: Channel) -> RemotingCommand | None:
        """Decide a transaction; a producer that does not know yet decides nothing, and will be asked."""
        fields = ExtFields(request.ext_fields)
        decision, group = fields.int32("commitOrRollback"), fields.text("producerGroup")
        named = EndTransaction(group, fields.int64("tranStateTableOffset"), fields.int64("commitLogOffset"))
        if decision == TRANSACTION_NONE:
            return None
        if decision == TRANSACTION_COMMIT:
            result = self._transactions.commit(named)
        elif decision == TRANSACTION_ROLLBACK:
            result = self._transactions.rollback(named)
        else:
            expected = f"{TRANSACTION_NONE}, {TRANSACTION_COMMIT} or {TRANSACTION_ROLLBACK}"
            raise RequestRefusedError(f"commitOrRollback: expected {expected}, found {decision}")
        if result.status is EndTransactionStatus.SLAVE_NOT_AVAILABLE:
            return response_to(request, ResponseCode.SLAVE_NOT_AVAILABLE, result.status.value)
        if result.status not in _DONE:
            return response_to(request, ResponseCode.SYSTEM_ERROR, result.status.value)
        if result.put is None:
            return success(request)
        return response_to(request, PUT_CODES[result.put.status], put_remark(result.put.status))
