import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornlog.store.formats.host import Host, decode_message_id, encode_message_id

HOSTS = st.builds(Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), st.integers(0, 65535))


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1|40001",
        "192.168.255.254|10911",
        "2001:db8:0:0:0:0:0:1|40001",
        "fe80:0:0:0:1234:5678:9abc:def0|65535",
        "0:0:0:0:0:0:0:1|0",
    ],
)
def test_the_text_form_of_a_host_is_that_of_java(text: str) -> None:
    assert str(Host.parse(text)) == text


def test_a_short_ipv6_spelling_is_the_same_host_as_the_long_one() -> None:
    assert Host.parse("::1|7") == Host.parse("0:0:0:0:0:0:0:1|7") == Host(bytes(15) + b"\x01", 7)


def test_only_sixteen_address_bytes_make_an_ipv6_host() -> None:
    assert Host.parse("::1|7").is_ipv6
    assert not Host.parse("10.0.0.1|7").is_ipv6


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "127.0.0.1|", "127.0.0.1|65536", "127.0.0.1|-1", "127.0.0|1", "host|1", "|1"]
)
def test_an_invalid_host_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|address"):
        Host.parse(text)


@settings(max_examples=50)
@given(HOSTS)
def test_every_host_survives_a_round_trip_through_its_text(host: Host) -> None:
    assert Host.parse(str(host)) == host


def test_an_encoded_message_id_equals_the_specification() -> None:
    assert encode_message_id(Host.parse("10.0.0.1|10911"), 4096) == "0A00000100002A9F0000000000001000"


def test_an_ipv6_message_id_has_56_digits() -> None:
    host = Host.parse("fe80:0:0:0:1234:5678:9abc:def0|65535")

    assert encode_message_id(host, 786) == "FE80000000000000123456789ABCDEF00000FFFF0000000000000312"


def test_lower_case_message_ids_are_accepted() -> None:
    assert decode_message_id("0a00000100002a9f0000000000001000") == (Host.parse("10.0.0.1|10911"), 4096)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "32 or 56"),
        ("0" * 31, "32 or 56"),
        ("0" * 64, "32 or 56"),
        ("0" * 31 + "g", "hex digits"),
        ("00 " * 10 + "00", "hex digits"),
        ("0" * 31 + "\n", "hex digits"),
    ],
)
def test_an_invalid_message_id_is_a_value_error(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        decode_message_id(text)


@settings(max_examples=50)
@given(HOSTS, st.integers(0, 2**63 - 1))
def test_every_host_and_offset_survive_a_round_trip_through_a_message_id(host: Host, physical_offset: int) -> None:
    assert decode_message_id(encode_message_id(host, physical_offset)) == (host, physical_offset)
