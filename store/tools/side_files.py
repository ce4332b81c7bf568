"""Side files of a directory: finds the damaged files."""

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
"""By file name. Other files, such as `topics.json`, only have to be valid JSON."""


def damaged_side_files(files: Files, config: StoreConfig) -> Iterator[CorruptFileError]:
    """Yield the damage of each invalid side file. Services use the `.bak` file instead, or start without the file.

    Raises OSError if a file cannot be read.
    """
    directory = config.config_directory
    status = files.status(directory)
    if status is None or not status.is_directory:
        return
    for name in files.list_directory(directory):
        path = f"{directory}/{name}"
        found = files.status(path)
        # After a crash a new file can be empty; the backup is then used.
        if not name.endswith(".json") or found is None or found.is_directory or not found.size_bytes:
            continue
        if found.size_bytes > SIDE_JSON_BYTES_MAX:
            yield CorruptFileError(path, 0, "file size", f"{SIDE_JSON_BYTES_MAX} or less", found.size_bytes)
            continue
        try:
            _DECODERS.get(name, _decode_side_file)(files.read(path), path)
        except CorruptFileError as error:
            yield error
