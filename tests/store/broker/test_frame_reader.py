"""Splitting of byte streams into commands."""

import random
from itertools import pairwise

import pytest

from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.formats.remoting.frame import LENGTH_FIELD, CommandReader, encode_frame

COMMANDS = [RemotingCommand(10, n, ext_fields={"n": str(n)}, body=bytes(n * 37)) for n in range(40)]
STREAM = b"".join(map(encode_frame, COMMANDS))


@pytest.mark.parametrize("seed", range(10))
def test_a_stream_split_anywhere_yields_each_command_once_in_order(seed: int) -> None:
    draw = random.Random(seed)
    cuts = sorted(draw.sample(range(1, len(STREAM)), draw.randint(1, 200)))
    reader = CommandReader("stream")

    found = []
    for begin, end in pairwise([0, *cuts, len(STREAM)]):
        found += [command for command, _ in reader.commands(STREAM[begin:end])]
        assert reader.held_bytes == end - len(b"".join(map(encode_frame, found)))

    assert found == COMMANDS
    assert reader.held_bytes == 0


def test_a_frame_is_returned_only_after_its_last_byte() -> None:
    reader = CommandReader("stream")
    frame = encode_frame(COMMANDS[3])

    for at in range(len(frame) - 1):
        reader.add(frame[at : at + 1])
        assert reader.take() is None
    reader.add(frame[-1:])

    assert reader.take() == (COMMANDS[3], len(frame))


def test_unread_commands_are_kept_while_more_data_arrives() -> None:
    reader = CommandReader("stream")
    half = len(STREAM) // 2

    reader.add(STREAM[:half])
    first = reader.take()
    reader.add(STREAM[half:])
    rest = []
    while (taken := reader.take()) is not None:
        rest.append(taken[0])

    assert first is not None
    assert [first[0], *rest] == COMMANDS


def test_an_impossible_frame_length_is_an_error_at_once() -> None:
    reader = CommandReader("stream")
    reader.add(b"\x01\0\0")
    assert reader.take() is None

    reader.add(b"\0")
    with pytest.raises(CorruptFileError) as refused:
        reader.take()

    assert (refused.value.field, refused.value.offset) == (LENGTH_FIELD, 0)


def test_a_frame_error_names_its_offset_in_the_stream() -> None:
    reader = CommandReader("stream")
    whole = encode_frame(COMMANDS[1])

    with pytest.raises(CorruptFileError) as refused:
        list(reader.commands(whole + whole + b"\0\0\0\x04\x09\0\0\0"))

    assert (refused.value.file, refused.value.offset) == ("stream", 2 * len(whole) + 4)
    assert refused.value.field == "headerForm"
