"""Operators call consumers through the broker, and silent consumers delay only them."""

from typing import Any

from tornlog.store.broker.requests import RequestCode, ResponseCode, response_to

from .conftest import GROUP, records_of


def call_consumer(operator: Any, consumer: Any, code: int = RequestCode.GET_CONSUMER_RUNNING_INFO, **more: Any) -> Any:
    return operator.answer(code, consumerGroup=GROUP, clientId=consumer.client_id, **more)


def let_consumer_answer(bench: Any, consumer: Any, code: int, body: bytes) -> list[Any]:
    """Let a consumer answer its calls. Return the calls."""
    asked = []

    def send(command: Any) -> bool:
        if command.is_one_way:
            return True
        asked.append(command)
        assert bench.broker.calls.deliver_response(consumer, response_to(command, code, "so", {"a": "b"}, body))
        return True

    consumer.send = send
    return asked


def test_the_answer_of_a_consumer_is_returned_to_the_operator(bench: Any) -> None:
    operator, consumer = bench.client(), bench.client()
    consumer.heartbeat()
    asked = let_consumer_answer(bench, consumer, 5, b"{}")
    answer = call_consumer(operator, consumer, jstackEnable="false")
    assert (answer.code, answer.remark, answer.ext_fields, answer.body) == (5, "so", {"a": "b"}, b"{}")
    assert asked[0].ext_fields["jstackEnable"] == "false"


def test_a_consumer_can_be_asked_to_process_one_message(bench: Any) -> None:
    operator, consumer = bench.client(), bench.client()
    consumer.heartbeat()
    message_id = operator.send_message(b"this one").ext_fields["msgId"]
    asked = let_consumer_answer(bench, consumer, 0, b"done")
    directly = RequestCode.CONSUME_MESSAGE_DIRECTLY
    assert call_consumer(operator, consumer, directly, msgId=message_id).body == b"done"
    assert [record.body for record in records_of(asked[0])] == [b"this one"]
    for wrong in ("x", message_id[:-1] + "7"):
        assert "msgId" in call_consumer(operator, consumer, directly, msgId=wrong).remark


def test_a_call_to_an_offline_or_silent_consumer_is_an_error(bench: Any) -> None:
    operator, consumer = bench.client(), bench.client()
    assert call_consumer(operator, consumer).code == ResponseCode.SYSTEM_ERROR
    consumer.heartbeat()
    begin_ns = bench.world.clock.monotonic_ns()
    assert call_consumer(operator, consumer).code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert bench.world.clock.monotonic_ns() - begin_ns == 5_000 * 1_000_000
    question = consumer.got[-1]
    assert not bench.broker.calls.deliver_response(consumer, response_to(question, 0))


def test_few_calls_are_in_flight_and_only_their_client_can_answer(bench: Any) -> None:
    operator, consumer, other = (bench.client() for _ in range(3))
    consumer.heartbeat()
    consumer.got.clear()
    answers: list[Any] = []
    tasks = [
        bench.world.tasks.spawn(f"operator {number}", lambda: answers.append(call_consumer(operator, consumer)))
        for number in range(3)
    ]
    bench.sleep(100)
    assert [answer.code for answer in answers] == [ResponseCode.SYSTEM_BUSY]
    for question in consumer.got:
        assert not bench.broker.calls.deliver_response(other, response_to(question, 0))
        assert bench.broker.calls.deliver_response(consumer, response_to(question, 0))
    for task in tasks:
        task.join(None)
    assert sorted(answer.code for answer in answers) == [0, 0, ResponseCode.SYSTEM_BUSY]


STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
AT_7 = b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":1,"topic":"Orders"}:7}}'


def consumer_status(operator: Any, client_id: str = "") -> Any:
    more = {"clientAddr": client_id} if client_id else {}
    return operator.answer(STATUS, topic="Orders", group=GROUP, **more)


def test_the_offsets_of_all_group_members_are_merged_in_one_table(bench: Any) -> None:
    operator, one, other = (bench.client() for _ in range(3))
    assert consumer_status(operator).code == ResponseCode.CONSUMER_NOT_ONLINE
    one.heartbeat()
    other.heartbeat()
    asked = let_consumer_answer(bench, one, 0, AT_7)
    let_consumer_answer(bench, other, 0, b'{"messageQueueTable":{}}')
    found = consumer_status(operator).body.decode()
    queue = '{"brokerName":"broker-a","queueId":1,"topic":"Orders"}'
    members = f'"{one.client_id}":{{{queue}:7}},"{other.client_id}":{{}}'
    assert found == f'{{"consumerTable":{{{members}}},"messageQueueTable":{{}}}}'
    assert (asked[0].code, asked[0].ext_fields) == (221, {"topic": "Orders", "group": GROUP})
    assert other.client_id not in consumer_status(operator, one.client_id).body.decode()
    assert len(asked) == 2
    assert '"consumerTable":{}' in consumer_status(operator, "nobody").body.decode()


def test_silent_members_share_one_timeout_and_are_left_out(bench: Any) -> None:
    operator, sound, failing, garbled = (bench.client() for _ in range(4))
    silent = [bench.client() for _ in range(5)]
    for client in (sound, failing, garbled, *silent):
        client.heartbeat()
    let_consumer_answer(bench, sound, 0, AT_7)
    let_consumer_answer(bench, failing, 1, AT_7)
    let_consumer_answer(bench, garbled, 0, AT_7[:-3])
    begin_ns = bench.world.clock.monotonic_ns()
    found = consumer_status(operator).body.decode()
    assert bench.world.clock.monotonic_ns() - begin_ns == 5_000 * 1_000_000
    assert sound.client_id in found
    assert not any(each.client_id in found for each in (failing, garbled, *silent))
