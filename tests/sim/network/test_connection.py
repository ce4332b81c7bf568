from tornlog.sim.network.connection import WireDirection


def test_bytes_arrive_in_the_order_of_sending() -> None:
    wire = WireDirection()
    wire.send(b"late", 100)
    wire.send(b"early", 50)
    assert wire.receive(100, 99) == b""
    assert wire.receive(100, 100) == b"lateearly"


def test_a_receive_returns_the_requested_bytes_and_frees_buffer_space() -> None:
    wire = WireDirection()
    wire.send(b"abc", 1)
    wire.send(b"def", 2)
    assert wire.receive(2, 5) == b"ab"
    assert wire.size_bytes == 4
    assert wire.receive(3, 5) == b"cde"
    assert wire.receive(3, 5) == b"f"
    assert wire.size_bytes == 0


def test_the_end_of_a_stream_arrives_once_after_all_bytes() -> None:
    wire = WireDirection()
    wire.send(b"x", 100)
    wire.end_stream(10)
    wire.end_stream(5_000)
    assert wire.ended_ns == 100
    assert wire.next_ns() == 100
    assert not wire.has_arrived(99)
    assert wire.receive(1, 100) == b"x"
    assert wire.has_arrived(100)
    assert not wire.has_arrived(99)


def test_losing_bytes_in_flight_drops_the_last_pieces_and_the_end() -> None:
    wire = WireDirection()
    for moment, data in ((1, b"a"), (2, b"b"), (3, b"c")):
        wire.send(data, moment)
    wire.end_stream(4)
    assert wire.count_in_flight(1) == 2
    wire.drop_last_pieces(1)
    assert wire.receive(10, 100) == b"ab"
    assert not wire.has_arrived(100)
    assert wire.next_ns() is None


def test_hastening_deliveries_never_delays_them_and_keeps_their_order() -> None:
    wire = WireDirection()
    wire.send(b"soon", 10)
    wire.send(b"some day", 1_000_000)
    wire.end_stream(2_000_000)
    wire.limit_arrivals_to(50)
    assert wire.receive(4, 10) == b"soon"
    assert not wire.has_arrived(49)
    assert wire.receive(100, 50) == b"some day"
    assert wire.ended_ns == 50
