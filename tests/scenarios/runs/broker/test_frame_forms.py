"""Frame forms: each form has the meaning of the Java client's frame."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from tornlog.scenarios.runs.broker.commands import consumer_heartbeat, make_request
from tornlog.scenarios.runs.broker.frame_forms import FRAME_FORMS, cpp_frame, dialect_frame, dialect_of
from tornlog.scenarios.runs.broker.message_options import EVERYTHING
from tornlog.store.broker.requests import RequestCode
from tornlog.store.formats.remoting.command import HeaderForm, RemotingCommand
from tornlog.store.formats.remoting.fastjson import decode_fastjson
from tornlog.store.formats.remoting.frame import decode_frame


@pytest.mark.parametrize("encode", FRAME_FORMS)
def test_a_frame_of_each_form_has_the_same_meaning(encode: Callable[[RemotingCommand], bytes]) -> None:
    fields = {"i": "KEYS\1it's a \\ key\2TAGS\1\xe9\u4e2d\U0001f600\2", "k": "false", "e": "-12", "empty": ""}
    command = replace(make_request(RequestCode.SEND_MESSAGE_V2, b"{body}", **fields), opaque=77)
    frame = encode(command)
    found, end = decode_frame(frame, 0, len(frame), file="frame")

    assert end == len(frame)
    if encode is cpp_frame:
        assert (found.language, found.version) == (1, 63)
        found = replace(found, language=0, version=0, remark=None)
    assert replace(found, form=HeaderForm.JSON) == command


def test_a_body_in_the_dialect_has_the_same_members() -> None:
    command = consumer_heartbeat("10.0.0.1@1", ["T0", "T1"], EVERYTHING)
    frame = dialect_frame(command)
    found, _ = decode_frame(frame, 0, len(frame), file="frame")
    texts = {"groupName": "g's", "numbers": ["1", "-2"], "flag": "Y", "none": None}

    assert len(found.body) > len(command.body)
    assert decode_fastjson(found.body, file="body")["clientID"] == msgspec.json.decode(command.body)["clientID"]
    found_texts = decode_fastjson(
        dialect_of({"groupName": "g's", "numbers": [1, -2], "flag": True, "none": None}).encode(), file="body"
    )
    assert found_texts == texts
