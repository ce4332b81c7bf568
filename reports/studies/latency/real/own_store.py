"""Program of a store process with this package's store.

Arguments: its directory, the fields of a Setup as JSON, and for a store without a disk the duration of the sleep that
replaces a sync. Such a store answers with the durations of its puts, without these sleeps, instead of latencies.
"""

import json
import sys
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from .....store.message_store import MessageStore
from .....store.real.world import real_world
from .....store.world import Files
from ..here import ClockedFiles, timed_call, without_syncs
from ..traffic import Setup, checked_put, message_of
from .process import PUT_TIMEOUT_MS, little_endian, serve, write_stopped
from .puts import MeasuredPuts, measure, running_store


def main(root: str, setup: str, sleep_seconds: str = "") -> None:
    chosen = Setup(**json.loads(setup))
    timeouts = {"os_page_cache_busy_time_out_ms": PUT_TIMEOUT_MS, "sync_flush_timeout_ms": PUT_TIMEOUT_MS}
    files = ClockedFiles(float(sleep_seconds), times_stores=False) if sleep_seconds else None
    world = real_world() if files is None else replace(real_world(), files=cast(Files, files))
    with running_store(world, chosen, root, **timeouts) as store:
        serve(lambda request: _put(store, chosen, request, files))
    write_stopped()


def _put(store: MessageStore, setup: Setup, request: dict[str, Any], files: ClockedFiles | None) -> dict[str, Any]:
    arrivals = array("q", little_endian(array("q", Path(request["arrivals"]).read_bytes())))
    gaps_ns, start = [], 0
    for count in request["counts"]:
        gaps_ns.append(arrivals[start : start + count])
        start += count
    put = checked_put(store, message_of(setup))
    found = measure(gaps_ns, put) if files is None else _measure_without_disk(gaps_ns, put, setup, files)
    Path(request["answers"]).write_bytes(b"".join(map(little_endian, found)))
    return {"puts": start}


def _measure_without_disk(
    gaps_ns: "list[array[int]]", put: Callable[[], None], setup: Setup, files: ClockedFiles
) -> MeasuredPuts:
    """With sync flush there is one producer, so that each put has a sync of its own."""
    took_ns, slept_ns = array("q"), files.log_syncs_ns
    files.use_measured_syncs()
    found = measure(gaps_ns, timed_call(put, took_ns))
    return found._replace(latencies_ns=without_syncs(took_ns, slept_ns) if setup.flush == "sync" else took_ns)


if __name__ == "__main__":
    main(*sys.argv[1:])
