"""Commands of simulated clients: the broker reads the fields that a client means."""

from tornlog.scenarios.runs.broker.commands import make_request, waits_for_durability, with_words
from tornlog.store.broker.requests import RequestCode
from tornlog.store.broker.sending import SendRequest

LETTERS = {"a": "producers", "b": "T0", "c": "TBW102", "d": 3, "e": 1, "f": 2, "g": 5, "h": 7, "i": "WAIT\1false\2"}
SEND = make_request(RequestCode.SEND_MESSAGE_V2, b"body", **LETTERS, j=4, k=True, l=6, m=False)


def test_a_send_with_words_says_the_same_as_one_with_letters() -> None:
    words = with_words(SEND)
    assert (words.code, words.body) == (RequestCode.SEND_MESSAGE, SEND.body)
    assert SendRequest.from_request(words) == SendRequest.from_request(SEND)


def test_a_send_does_not_wait_for_durability_if_its_properties_say_so() -> None:
    for send in (SEND, with_words(SEND)):
        assert not waits_for_durability(send)
        waiting = send.ext_fields | {"i" if "i" in send.ext_fields else "properties": "WAIT\1true\2"}
        assert waits_for_durability(make_request(RequestCode(send.code), b"body", **waiting))
