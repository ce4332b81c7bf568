"""Request texts: the remoting commands on a simulated network, described for a story."""

import re
from typing import Any

import pytest

from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.failures.request_texts import RequestTexts
from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants import MUTANTS
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.formats.remoting.command import ONE_WAY_FLAG, RESPONSE_FLAG, RemotingCommand
from tornlog.store.formats.remoting.frame import encode_frame

ASKS, ANSWERS = "10.0.0.9:1>10.0.0.1:2", "10.0.0.1:2>10.0.0.9:1"
PULL = RemotingCommand(
    RequestCode.PULL_MESSAGE, 7, ext_fields={"topic": "T0", "queueId": "1", "queueOffset": "3", "consumerGroup": "g"}
)


def answer(code: int, opaque: int = 7) -> RemotingCommand:
    return RemotingCommand(code, opaque, RESPONSE_FLAG, remark="why", ext_fields={"nextBeginOffset": "4"})


def test_an_answer_is_described_with_the_request_of_the_other_direction() -> None:
    texts = RequestTexts()
    assert texts.text_of_sent(ASKS, encode_frame(PULL)) == "PULL_MESSAGE T0/1 queueOffset=3 consumerGroup=g"
    found = texts.text_of_sent(ANSWERS, encode_frame(answer(ResponseCode.PULL_NOT_FOUND)))
    assert found == "answer to PULL_MESSAGE T0/1: PULL_NOT_FOUND nextBeginOffset=4, why"
    assert [each.answer for each in texts.exchanges] == ["PULL_NOT_FOUND nextBeginOffset=4, why"]
    assert texts.text_of_sent(ANSWERS, encode_frame(answer(9_999, 8))).startswith("answer to a request: 9999")


def test_a_command_is_described_with_the_send_that_completes_it() -> None:
    texts, frame = RequestTexts(), encode_frame(PULL)
    assert texts.text_of_sent(ASKS, frame[:9]) == ""
    assert texts.text_of_sent(ASKS, frame[9:] + frame).count("PULL_MESSAGE") == 2


@pytest.mark.parametrize("data", [b"\x00" * 64, b"\xff" * 64])
def test_other_protocols_have_no_text(data: bytes) -> None:
    texts = RequestTexts()
    assert texts.text_of_sent(ASKS, data) == texts.text_of_sent(ASKS, encode_frame(PULL)) == ""


def test_fields_of_short_headers_have_their_names_and_json_bodies_are_cut() -> None:
    texts = RequestTexts()
    send = RemotingCommand(
        RequestCode.SEND_MESSAGE_V2, 1, ONE_WAY_FLAG, ext_fields={"a": "g", "b": "T", "e": "2"}, body=b"{" * 500
    )
    text = texts.text_of_sent(ASKS, encode_frame(send))
    assert text.startswith("SEND_MESSAGE_V2 T/2 producerGroup=g {")
    assert len(text) < 140


def failure_of(mutant: str, **changes: Any) -> Failure:
    scenario = Scenario("case", "every promise holds", MUTANTS[mutant].needs.replace(**changes))
    results = (run_seed(scenario, seed, mutant=mutant) for seed in range(40))
    return next(result.failure for result in results if result.failure is not None)


def test_the_story_of_a_broker_has_the_request_that_was_answered_wrongly() -> None:
    failure = failure_of("leave-not-announced", broker={"group_operators": (0,)})
    assert re.search(r"UNREGISTER_CLIENT \w\S* clientID=", str(failure.to_json()))


def test_a_finding_has_the_judged_request_with_the_function_of_the_store_that_handled_it() -> None:
    story = failure_of("missing-message-sent-back").original.story

    (judged,) = (line for line in story if " judged request " in line)
    assert " judged request CONSUMER_SEND_MSG_BACK consumers offset=" in judged
    assert re.search(r" -> SUCCESS \(\S*life-\d\)  \[broker/processors/send\.py:\d+ send_back]$", judged)
    assert not [line for line in story if "split delivery" in line or "mutants/" in line]


def test_a_request_that_a_server_judges_before_its_answer_is_named() -> None:
    story = failure_of("unregistering-removes-the-name").original.story

    (judged,) = (line for line in story if " judged request " in line)
    assert re.search(r" -> (answer checked in life-[0-9]/admin|SUCCESS, )", judged)
    assert judged.endswith(" <lambda>]")
    assert [line for line in story if " request UNREGISTER_BROKER brokerName=" in line]
