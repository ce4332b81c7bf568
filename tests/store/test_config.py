import pytest

from tornlog.store.config import StoreConfig


@pytest.mark.parametrize(
    "name", ["mapped_file_size_commit_log", "mapped_file_size_consume_queue", "max_message_size"]
)
@pytest.mark.parametrize("value", [0, -1])
def test_a_size_that_is_not_positive_is_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected 1 or more, found {value}"):
        StoreConfig("/store", **{name: value})


@pytest.mark.parametrize(("asked", "rounded"), [(1, 20), (20, 20), (100, 100), (110, 120)])
def test_a_queue_file_holds_whole_entries(asked: int, rounded: int) -> None:
    assert (
        StoreConfig("/store", mapped_file_size_consume_queue=asked).mapped_file_size_consume_queue == rounded
    )


def test_everything_lies_below_the_root_under_rocketmqs_names() -> None:
    config = StoreConfig("/data/store")

    assert config.commit_log_directory == "/data/store/commitlog"
    assert config.consume_queue_directory == "/data/store/consumequeue"
    assert config.checkpoint_path == "/data/store/checkpoint"
    assert config.abort_path == "/data/store/abort"
    assert config.lock_path == "/data/store/lock"
