"""Side files: finds damaged JSON files below `config/`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..config import StoreConfig
from ..delivery.schedule import decoded_offsets
from ..errors import CorruptFileError
from ..formats.side_json import SIDE_JSON_BYTES_MAX, decode_side_json
from ..services.consumer_offsets import decoded_consumer_offsets
from ..world import Files


def _decode_side_file(raw: bytes, file: str) -> object:
    return decode_side_json(raw, file=file)


_DECODERS: Mapping[str, Callable[[bytes, str], Any]] = {
    "delayOffset.json": decoded_offsets,
    "consumerOffset.json": decoded_consumer_offsets,
    "lmqConsumerOffset.json": decoded_consumer_offsets,
}
"""The decoder of each file name. All other files, for example `topics.json`, must only be valid JSON."""


def damaged_side_files(files: Files, config: StoreConfig) -> Iterator[CorruptFileError]:
    """Yield an error for each invalid side file. A service then uses the `.bak` file or starts without a file.

    Raises OSError for unreadable files.
    """
    directory = config.config_directory
    status = files.status(directory)
    if status is None or not status.is_directory:
        return
    for name in files.list_directory(directory):
        path = f"{directory}/{name}"
        found = files.status(path)
        # An empty file is not damage: a crash can leave a new file empty, and a service then uses the backup.
        if not name.endswith(".json") or found is None or found.is_directory or not found.size_bytes:
            continue
        if found.size_bytes > SIDE_JSON_BYTES_MAX:
            yield CorruptFileError(path, 0, "file size", f"{SIDE_JSON_BYTES_MAX} or less", found.size_bytes)
            continue
        try:
            _DECODERS.get(name, _decode_side_file)(files.read(path), path)
        except CorruptFileError as error:
            yield error
