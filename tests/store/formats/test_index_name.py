from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.formats.index import LOCAL_MS_MAX, index_file_name, parse_index_file_name

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.integers(0, LOCAL_MS_MAX))
def test_a_name_is_the_time_and_tells_it(local_ms: int) -> None:
    moment = EPOCH + timedelta(milliseconds=local_ms)
    name = index_file_name(local_ms)
    assert name == f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"
    assert parse_index_file_name(name) == local_ms


@given(st.lists(st.integers(0, LOCAL_MS_MAX), min_size=2))
def test_names_sort_as_times_do(times: list[int]) -> None:
    assert sorted(map(index_file_name, times)) == [index_file_name(time) for time in sorted(times)]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "notes.txt",
            "2020091312264012",
            "202009131226401234",
            "20200931000000000",
            "20201301000000000",
        ),
        *(
            "20200913246000000",
            "20200913236100000",
            "20200913235961000",
            "19691231235959999",
            "20210229000000000",
        ),
        *("2020091312264012x", "٢0200913122640123", "00000000000000000"),
    ],
)
def test_what_is_no_time_is_no_name(name: str) -> None:
    assert parse_index_file_name(name) is None


def test_a_leap_day_is_a_time() -> None:
    assert parse_index_file_name("20240229000000000") is not None
    assert parse_index_file_name("20000229000000000") is not None
    assert parse_index_file_name("21000229000000000") is None
