"""What all processors have in common: what goes wrong becomes an answer."""

from ...errors import CorruptFileError, StoreError, StoreNotReadableError
from ...formats.remoting.command import RemotingCommand
from ..channel import Channel, Processor
from ..requests import RequestRefusedError, ResponseCode
from ..responses import response_to


def answering(processor: Processor) -> Processor:
    """Return a processor that answers what another one refuses or fails at, and never raises an error of ours."""

    def process(request: RemotingCommand, channel: Channel) -> RemotingCommand | None:
        try:
            return processor(request, channel)
        except RequestRefusedError as refused:
            return response_to(request, refused.code, refused.remark)
        except StoreNotReadableError as error:
            return response_to(request, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
        except CorruptFileError as error:
            remark = f"{error.file}: {error.field}: expected {error.expected}, found {error.found}"
            return response_to(request, ResponseCode.SYSTEM_ERROR, remark)
        except (StoreError, OSError) as error:
            return response_to(request, ResponseCode.SYSTEM_ERROR, str(error))

    return process
