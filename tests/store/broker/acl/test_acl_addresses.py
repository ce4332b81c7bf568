"""White lists of addresses."""

import pytest

from tornlog.store.broker.acl.rules import AddressPatternError, address_parts, parse_address_pattern


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("", [], ["10.0.0.1", "::1"]),
        ("*", ["10.0.0.1", "::1"], []),
        ("*.*.*.*", ["10.0.0.1"], []),
        ("*:*:*:*:*:*:*:*", ["::1"], []),
        ("10.0.0.7", ["10.0.0.7", "::ffff:10.0.0.7"], ["10.0.0.8", "::1"]),
        ("10.0.0.7, 10.0.1.8", ["10.0.0.7", "10.0.1.8"], ["10.0.0.8"]),
        ("10.0.0.{7,9}", ["10.0.0.7", "10.0.0.9"], ["10.0.0.8", "10.0.1.7"]),
        ("10.0.*.*", ["10.0.200.1"], ["10.1.0.0"]),
        ("10.1-3.*.*", ["10.1.0.0", "10.3.255.255"], ["10.0.0.1", "10.4.0.1"]),
        ("10.0.0.200-255", ["10.0.0.200", "10.0.0.255"], ["10.0.0.199"]),
        ("::1", ["::1", "0:0:0:0:0:0:0:1"], ["::2", "0.0.0.1"]),
        ("FE80::A", ["fe80::a"], ["fe80::b"]),
        ("fe80::{1,ff}", ["fe80::1", "fe80::ff"], ["fe80::2"]),
        ("2001:db8:0-ff:*:*:*:*:*", ["2001:db8:ff::1"], ["2001:db8:100::1"]),
    ],
)
def test_an_address_pattern_matches_only_the_expected_addresses(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    parsed = parse_address_pattern(pattern)

    assert all(parsed.matches(address_parts(one)) for one in matching)
    assert not any(parsed.matches(address_parts(one)) for one in others)


@pytest.mark.parametrize(
    "pattern",
    [
        "10.0.0",
        "10.0.0.256",
        "10.0.0.-1",
        "10.0.0.5-3",
        "10.*.0.1",
        "10.0.{1,2}.3",
        "10.0.0.{}",
        "10.0.0.1,",
        "ten.0.0.1",
        "10.0.0.\u0663",
        "1:2:3",
        "1::2::3",
        "12345::1",
        "1:2:3:4:5:6:7:8:9",
        "host.example",
    ],
)
def test_the_error_for_an_invalid_address_pattern_quotes_it(pattern: str) -> None:
    with pytest.raises(AddressPatternError) as refused:
        parse_address_pattern(pattern)
    assert repr(pattern) in str(refused.value)


def test_a_host_that_is_not_an_address_matches_only_the_wildcard() -> None:
    assert address_parts("host.example") is None
    assert parse_address_pattern("*").matches(None)
    assert not parse_address_pattern("10.*.*.*").matches(None)


def test_brackets_around_an_ipv6_host_are_ignored() -> None:
    assert address_parts("[::1]") == address_parts("::1") == (0, 0, 0, 0, 0, 0, 0, 1)
