import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.broker import BrokerProcess, LoadProcess, ProcessError
from tests.bench.exchanges import Pulls, ResponseError, ResponseReader, Sends, is_success, message_count, pull_frame
from tests.bench.load_client import run_load
from tornlog.store.formats.properties import decode_properties
from tornlog.store.formats.remoting.command import RESPONSE_FLAG, HeaderForm, RemotingCommand
from tornlog.store.formats.remoting.frame import CommandReader, decode_frame, encode_frame

SMALL = ("mapedFileSizeCommitLog=4194304", "maxHashSlotNum=1000", "maxIndexNum=4000")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(str(tmp_path_factory.mktemp("broker")), SMALL) as running:
        yield running
    assert running.stopped["clean"] is True


@pytest.mark.parametrize("form", HeaderForm)
def test_sends_of_a_client_differ_only_in_their_unique_key(form: HeaderForm) -> None:
    frames = Sends(10, 11, client=3, form=form)
    raw = [bytes(frames.request()) for _ in range(2)]
    sent = [decode_frame(frame, 0, len(frame), file="f")[0] for frame in raw]
    keys = [decode_properties(command.ext_fields["i"])["UNIQ_KEY"] for command in sent]
    assert [int(key, 16) - (3 << 64) for key in keys] == [1, 2]
    assert sent[0].ext_fields["e"] == "3"
    assert (len(sent[0].body), sent[0].form) == (10, form)


def test_sends_and_pulls_of_a_broker_are_counted_and_timed(broker: BrokerProcess) -> None:
    sends = run_load(broker.address, [Sends(100, n, n) for n in range(4)], 0.3)
    pulls = run_load(broker.address, [Pulls(n) for n in range(4)], 0.3)
    assert sends.messages == len(sends.latencies_ns) > 4
    assert pulls.messages > len(pulls.latencies_ns) > 4
    assert (sends.busy, pulls.busy) == (0, 0)
    assert min(sends.latencies_ns) > 0
    assert broker.resident_bytes > 1 << 20


def test_a_paced_load_sends_at_its_interval(broker: BrokerProcess) -> None:
    load = run_load(broker.address, [Sends(100, n, 9 + n) for n in range(4)], 1.0, 0.1)
    assert 36 <= load.messages <= 41


def test_a_load_process_reports_its_result_or_its_error(broker: BrokerProcess) -> None:
    found = LoadProcess("send", broker.address, "--seconds", "0.2", "--connections", "2").result()
    assert found.messages == found.answers > 0
    assert 0 < found.p50_us <= found.p99_us <= found.max_us
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ProcessError, match="ConnectionRefused"):
        LoadProcess("send", nobody, "--seconds", "0.2").result()


def test_the_error_for_a_broker_that_does_not_start_has_its_output(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="nosuchkey"), BrokerProcess(str(tmp_path), ("nosuchkey=1",)):
        pass


def program_that_answers(response: RemotingCommand | None) -> str:
    """Serve one connection with this answer to everything, or close it; return the address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listener, listener.accept()[0] as accepted:
            reader = CommandReader("client")
            while data := accepted.recv(1 << 16):
                for _ in reader.commands(data):
                    if response is None:
                        return
                    accepted.sendall(encode_frame(response))

    threading.Thread(target=run, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}"


def test_an_error_response_makes_the_load_fail() -> None:
    denied = RemotingCommand(1, 1, RESPONSE_FLAG, remark="no")
    with pytest.raises(ResponseError, match="answered 1: no"):
        run_load(program_that_answers(denied), [Sends(10, 0, 0)], 0.2)


def test_busy_answers_are_counted_separately() -> None:
    load = run_load(program_that_answers(RemotingCommand(2, 1, RESPONSE_FLAG)), [Sends(10, 0, 0)], 0.1)
    assert load.messages == 0
    assert load.busy == len(load.latencies_ns) > 0


def test_a_connection_that_ends_makes_the_load_fail() -> None:
    with pytest.raises((ResponseError, ConnectionError)):
        run_load(program_that_answers(None), [Sends(10, 0, 0)], 0.2)


def test_a_pulled_message_out_of_order_is_an_error() -> None:
    pulls = Pulls(0)
    assert decode_frame(pull_frame(0, 0), 0, len(pull_frame(0, 0)), file="f")[0].code == 11
    record = b"\0\0\0\x08abcd"
    found = RemotingCommand(0, 1, RESPONSE_FLAG, ext_fields={"nextBeginOffset": "2"}, body=record * 2)
    gap = RemotingCommand(0, 1, RESPONSE_FLAG, ext_fields={"nextBeginOffset": "9"}, body=record)
    end = RemotingCommand(19, 1, RESPONSE_FLAG)

    assert pulls.response(encode_frame(found)) == 2
    with pytest.raises(ResponseError, match="1 messages from 2 lead to 9"):
        pulls.response(encode_frame(gap))
    assert pulls.response(encode_frame(end)) == 0
    with pytest.raises(ResponseError, match="answered 19"):
        pulls.response(encode_frame(end))


@pytest.mark.parametrize("records", [b"\0", b"\0\0\0\0", b"\0\0\0\x09abcd", b"\xff\xff\xff\xffabcd"])
def test_a_pull_answer_with_a_partial_record_is_an_error(records: bytes) -> None:
    with pytest.raises(ResponseError):
        message_count(records)


def test_a_response_in_pieces_is_joined_and_two_responses_at_once_are_an_error() -> None:
    frame = encode_frame(RemotingCommand(0, 1, RESPONSE_FLAG))
    reader = ResponseReader()
    assert reader.add(frame[:3]) is None
    assert reader.add(frame[3:-1]) is None
    assert reader.add(frame[-1:]) == frame
    assert is_success(frame)
    with pytest.raises(ResponseError, match="more than one"):
        reader.add(frame * 2)
