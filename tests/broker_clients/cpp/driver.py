"""Driver of RocketMQ's C++ client, by its C interface: answers commands like the drivers in Java and Go.

Each line of standard input is a command, {"do": NAME, ...}. The answer is a line of "> " and {"is": ...}, or {"error":
NAME, "message": ...}. The error NotOffered means that the C interface has no such function or option.
"""

import json
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char, c_char_p, c_int, c_longlong, c_void_p
from typing import Any

from rocketmq.ffi import dll  # type: ignore[import-not-found]

ANSWER_S = 30
BATCH_MESSAGES_MAX = 4
SUCCESS, LATER = 0, 1
BROADCASTING, CLUSTERING = 0, 1
SEND_STATUSES = {0: "SEND_OK"}
PULL_STATUSES = dict(enumerate(("FOUND", "NO_NEW_MSG", "NO_MATCHED_MSG", "OFFSET_ILLEGAL", "BROKER_TIMEOUT")))
SNAKE_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
DECISIONS = {"COMMIT_MESSAGE": 0, "ROLLBACK_MESSAGE": 1, "UNKNOW": 2}


class NotOffered(Exception):
    """The C interface has no such function or option."""


class ClientFault(Exception):
    """The client returned an error code."""


class SendResult(Structure):
    _fields_ = (("status", c_int), ("msg_id", c_char * 256), ("offset", c_longlong))


class Queue(Structure):
    _fields_ = (("topic", c_char * 512), ("broker", c_char * 256), ("id", c_int))


class PullResult(Structure):
    _fields_ = (
        *(("status", c_int), ("next", c_longlong), ("min", c_longlong), ("max", c_longlong)),
        *(("messages", POINTER(c_void_p)), ("count", c_int), ("data", c_void_p)),
    )


class Fault(Structure):
    _fields_ = (("error", c_int), ("line", c_int), *((name, c_char * 512) for name in ("file", "text", "kind")))


ON_MESSAGE = CFUNCTYPE(c_int, c_void_p, c_void_p)
ON_TRANSACTION = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
ON_SENT = CFUNCTYPE(None, SendResult)
ON_FAULT = CFUNCTYPE(None, Fault)
CHOOSE_QUEUE = CFUNCTYPE(c_int, c_int, c_void_p, c_void_p)


def call(name: str, *arguments: Any, result: Any = c_int, types: Any = None) -> Any:
    function = getattr(dll, name, None)
    if function is None:
        raise NotOffered(name)
    function.restype = result
    function.argtypes = types
    return function(*arguments)


def do(name: str, *arguments: Any) -> None:
    """Call a function that returns 0 on success."""
    code = call(name, *arguments)
    if code:
        raise ClientFault(f"{name}: {code}: {call('GetLatestErrorMessage', result=c_char_p)!r}")


def make(name: str, *arguments: Any) -> c_void_p:
    """Call a function that returns a handle."""
    return c_void_p(call(name, *arguments, result=c_void_p))


running: dict[str, c_void_p] = {}
received: dict[str, list[dict[str, Any]]] = {}
checked: list[str] = []
callbacks: list[Any] = []
"""The C client keeps only addresses of callbacks."""


def text(name: str, handle: c_void_p) -> str:
    return (call(name, handle, result=c_char_p) or b"").decode()


def number(name: str, handle: c_void_p, result: Any = c_longlong) -> int:
    return int(call(name, handle, result=result))


def property_of(handle: c_void_p, key: str) -> str:
    return (call("GetMessageProperty", handle, key.encode(), result=c_char_p) or b"").decode()


def described(handle: c_void_p) -> dict[str, Any]:
    return {
        "body": text("GetMessageBody", handle),
        "topic": text("GetMessageTopic", handle),
        "queueId": number("GetMessageQueueId", handle, c_int),
        "queueOffset": number("GetMessageQueueOffset", handle),
        "reconsumeTimes": number("GetMessageReconsumeTimes", handle, c_int),
        "msgId": text("GetMessageId", handle),
        "properties": {"TAGS": text("GetMessageTags", handle), "KEYS": text("GetMessageKeys", handle)},
        "receivedMs": time.time() * 1000,
    }


def start_producer(namesrv: str, name: str, group: str, transactional: bool = False, timeout_ms: int = 3_000) -> None:
    if transactional:
        callbacks.append(ON_TRANSACTION(check))
        handle = make("CreateTransactionProducer", group.encode(), callbacks[-1], None)
    else:
        handle = make("CreateProducer", group.encode())
    do("SetProducerNameServerAddress", handle, namesrv.encode())
    do("SetProducerInstanceName", handle, name.encode())
    do("SetProducerSendMsgTimeout", handle, timeout_ms)
    do("StartProducer", handle)
    running[name] = handle


def check(_producer: int, message: int, _data: int) -> int:
    checked.append(text("GetMessageBody", c_void_p(message)))
    return DECISIONS[property_of(c_void_p(message), "whenChecked")]


def stop_producer(producer: str, namesrv: str = "") -> None:
    handle = running.pop(producer)
    do("ShutdownProducer", handle)
    do("DestroyProducer", handle)


def message(
    topic: str, body: str, tags: str = "", keys: str = "", delay_level: int = 0, properties: Any = None
) -> c_void_p:
    handle = make("CreateMessage", topic.encode())
    raw = body.encode()
    do("SetByteMessageBody", handle, raw, len(raw))
    if tags:
        do("SetMessageTags", handle, tags.encode())
    if keys:
        do("SetMessageKeys", handle, keys.encode())
    if delay_level:
        do("SetDelayTimeLevel", handle, delay_level)
    for key, value in (properties or {}).items():
        do("SetMessageProperty", handle, key.encode(), value.encode())
    return handle


def answer_of(result: SendResult) -> dict[str, Any]:
    status = SEND_STATUSES.get(result.status, result.status)
    return {"status": status, "queueOffset": result.offset, "msgId": result.msg_id.decode()}


def send_with(function: str, producer: str, handle: c_void_p, *arguments: Any) -> dict[str, Any]:
    result = SendResult()
    do(function, running[producer], handle, *arguments, byref(result))
    do("DestroyMessage", handle)
    return answer_of(result)


def send(producer: str, namesrv: str, **given: Any) -> dict[str, Any]:
    return send_with("SendMessageSync", producer, message(**given))


def send_ordered(producer: str, namesrv: str, key: int, **given: Any) -> dict[str, Any]:
    callbacks.append(CHOOSE_QUEUE(lambda size, _message, _key: key % size))
    return send_with("SendMessageOrderly", producer, message(**given), callbacks[-1], byref(c_int()), 1)


def send_async(producer: str, namesrv: str, **given: Any) -> dict[str, Any]:
    answers: list[Any] = []
    answered = threading.Event()

    def note(answer: Any) -> None:
        answers.append(answer)
        answered.set()

    callbacks.append(ON_SENT(lambda result: note(answer_of(result))))
    callbacks.append(ON_FAULT(lambda fault: note(ClientFault(fault.text.decode()))))
    do("SendMessageAsync", running[producer], message(**given), *callbacks[-2:])
    if not answered.wait(ANSWER_S):
        raise ClientFault("an asynchronous send was not answered")
    if isinstance(answers[0], Exception):
        raise answers[0]
    found: dict[str, Any] = answers[0]
    return found


def send_oneway(producer: str, namesrv: str, **given: Any) -> None:
    do("SendMessageOneway", running[producer], message(**given))


def send_batch(producer: str, namesrv: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    batch = make("CreateBatchMessage")
    for each in messages:
        do("AddMessage", batch, message(**each))
    result = SendResult()
    do("SendBatchMessage", running[producer], batch, byref(result))
    return answer_of(result)


def send_transaction(producer: str, namesrv: str, **given: Any) -> dict[str, Any]:
    decision = given["properties"]["then"]
    callbacks.append(ON_TRANSACTION(lambda _producer, _message, _data: DECISIONS[decision]))
    return send_with("SendMessageTransaction", producer, message(**given), callbacks[-1], None) | {"decided": decision}


def start_consumer(
    namesrv: str, name: str, topic: str, group: str, tags: str = "*", orderly: bool = False, broadcasting: bool = False
) -> None:
    """Start a push consumer. A message with the property "later": N is consumed only at its attempt N + 1."""
    seen = received[name] = []
    attempts: dict[str, int] = defaultdict(int)

    def consume(_consumer: int, message: int) -> int:
        handle = c_void_p(message)
        one = described(handle)
        seen.append(one)
        attempts[one["body"]] += 1
        return LATER if attempts[one["body"]] <= int(property_of(handle, "later") or 0) else SUCCESS

    callbacks.append(ON_MESSAGE(consume))
    handle = make("CreatePushConsumer", group.encode())
    do("SetPushConsumerNameServerAddress", handle, namesrv.encode())
    do("SetPushConsumerInstanceName", handle, name.encode())
    do("SetPushConsumerMessageModel", handle, BROADCASTING if broadcasting else CLUSTERING)
    do("Subscribe", handle, topic.encode(), tags.encode())
    do("RegisterMessageCallbackOrderly" if orderly else "RegisterMessageCallback", handle, callbacks[-1])
    do("StartPushConsumer", handle)
    running[name] = handle


def stop_consumer(consumer: str, namesrv: str = "") -> list[dict[str, Any]]:
    handle = running.pop(consumer)
    do("ShutdownPushConsumer", handle)
    do("DestroyPushConsumer", handle)
    return received.pop(consumer)


def pulled(namesrv: str, name: str, topic: str, group: str, use: Callable[[c_void_p, list[Queue]], Any]) -> Any:
    """Start a pull consumer, call `use` with it and its queues, and stop it."""
    handle = make("CreatePullConsumer", group.encode())
    do("SetPullConsumerNameServerAddress", handle, namesrv.encode())
    do("StartPullConsumer", handle)
    try:
        queues, size = POINTER(Queue)(), c_int()
        do("FetchSubscriptionMessageQueues", handle, topic.encode(), byref(queues), byref(size))
        return use(handle, sorted((queues[each] for each in range(size.value)), key=lambda queue: queue.id))
    finally:
        do("ShutdownPullConsumer", handle)
        do("DestroyPullConsumer", handle)


def pull(handle: c_void_p, queue: Queue, tags: str, offset: int) -> tuple[PullResult, list[dict[str, Any]]]:
    arguments = (handle, byref(queue), tags.encode(), c_longlong(offset), c_int(BATCH_MESSAGES_MAX))
    result: PullResult = call("Pull", *arguments, result=PullResult)
    messages = [described(c_void_p(result.messages[each])) for each in range(result.count)]
    call("ReleasePullResult", result, types=[PullResult])
    return result, messages


def pull_all(namesrv: str, name: str, topic: str, group: str, tags: str = "*") -> dict[str, Any]:
    """Pull each queue to its end. The C interface cannot read or store the offset of a group."""
    messages: list[dict[str, Any]] = []
    offsets: dict[str, int] = {}

    def use(handle: c_void_p, queues: list[Queue]) -> None:
        for queue in queues:
            offset = 0
            while True:
                result, found = pull(handle, queue, tags, offset)
                messages.extend(found)
                offset = result.next
                if PULL_STATUSES[result.status] not in ("FOUND", "NO_MATCHED_MSG"):
                    break
            offsets[str(queue.id)] = offset

    pulled(namesrv, name, topic, group, use)
    return {"messages": messages, "offsets": offsets}


def pull_at(namesrv: str, name: str, topic: str, group: str, queue_id: int, offset: int) -> Any:
    def use(handle: c_void_p, queues: list[Queue]) -> dict[str, Any]:
        result, _ = pull(handle, queues[queue_id], "*", offset)
        return {"status": PULL_STATUSES[result.status], "next": result.next, "min": result.min, "max": result.max}

    return pulled(namesrv, name, topic, group, use)


COMMANDS: dict[str, Callable[..., Any]] = {
    "producer.start": start_producer,
    "producer.stop": stop_producer,
    "send": send,
    "send.async": send_async,
    "send.oneway": send_oneway,
    "send.batch": send_batch,
    "send.ordered": send_ordered,
    "send.transaction": send_transaction,
    "transaction.checked": lambda namesrv: list(checked),
    "consumer.start": start_consumer,
    "consumer.received": lambda consumer, namesrv: list(received[consumer]),
    "consumer.stop": stop_consumer,
    "pull.all": pull_all,
    "pull.at": pull_at,
}


def answer(do: str, **given: Any) -> dict[str, Any]:
    try:
        if do not in COMMANDS:
            raise NotOffered(do)
        return {"is": COMMANDS[do](**given)}
    except TypeError as error:  # an option that the function does not have
        if "unexpected keyword argument" not in str(error):
            raise
        return {"error": "NotOffered", "message": str(error)}
    except (NotOffered, ClientFault) as error:
        return {"error": type(error).__name__, "message": str(error)}


if __name__ == "__main__":
    for line in sys.stdin:
        given = {SNAKE_CASE.sub("_", option).lower(): value for option, value in json.loads(line).items()}
        print("> " + json.dumps(answer(**given)), flush=True)
