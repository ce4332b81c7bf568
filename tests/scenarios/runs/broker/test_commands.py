"""Commands of simulated clients: the broker reads the fields that a client means."""

from tornlog.scenarios.runs.broker.commands import (
    draw_form_of_send,
    make_request,
    waits_for_durability,
    with_letters,
    with_words,
)
from tornlog.sim.choices import Choices
from tornlog.store.broker.requests import RequestCode
from tornlog.store.broker.sending import SendRequest

LETTERS = {"a": "producers", "b": "T0", "c": "TBW102", "d": 3, "e": 1, "f": 2, "g": 5, "h": 7, "i": "WAIT\1false\2"}
SEND = make_request(RequestCode.SEND_MESSAGE_V2, b"body", **LETTERS, j=4, k=True, l=6, m=False)


def test_a_send_with_words_says_the_same_as_one_with_letters() -> None:
    words = with_words(SEND)
    assert (words.code, words.body) == (RequestCode.SEND_MESSAGE, SEND.body)
    assert SendRequest.from_request(words) == SendRequest.from_request(SEND)
    assert with_letters(words, RequestCode.SEND_MESSAGE_V2) == SEND


def test_a_send_does_not_wait_for_durability_if_its_properties_say_so() -> None:
    for send in (SEND, with_words(SEND)):
        assert not waits_for_durability(send)
        waiting = send.ext_fields | {"i" if "i" in send.ext_fields else "properties": "WAIT\1true\2"}
        assert waits_for_durability(make_request(RequestCode(send.code), b"body", **waiting))


def test_each_form_of_a_send_says_the_same() -> None:
    letters = {**LETTERS, "f": 0}
    for is_batch, code in ((False, RequestCode.SEND_MESSAGE_V2), (True, RequestCode.SEND_BATCH_MESSAGE)):
        send = make_request(code, b"body", **letters, j=0, k=False, m=is_batch)
        forms = [draw_form_of_send(Choices(str(seed)).stream("forms"), send) for seed in range(60)]
        assert {each.code for each in forms} == {code, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE}
        assert any(not {"j", "reconsumeTimes"} & each.ext_fields.keys() for each in forms)
        read = [SendRequest.from_request(each) for each in forms]
        assert {each.max_reconsume_times for each in read} == {-1, 3}
        assert {each._replace(max_reconsume_times=-1) for each in read} == {SendRequest.from_request(send)}
