"""Program of a store process with this package's store. Arguments: its directory, and the fields of a Setup as JSON."""

import json
import sys
from array import array
from pathlib import Path
from typing import Any

from .....store.message_store import MessageStore
from .....store.real.world import real_world
from ..traffic import Setup, checked_put, message_of
from .process import PATIENCE_MS, little_endian
from .puts import measure, running_store


def main(root: str, setup: str) -> None:
    chosen = Setup(**json.loads(setup))
    patience = {"os_page_cache_busy_time_out_ms": PATIENCE_MS, "sync_flush_timeout_ms": PATIENCE_MS}
    with running_store(real_world(), chosen, root, **patience) as store:
        _answer({"ready": True})
        for line in sys.stdin:
            request = json.loads(line)
            if request["do"] == "stop":
                break
            try:
                _answer(_put(store, chosen, request))
            except Exception as error:
                _answer({"error": f"{type(error).__name__}: {error}"})
    _answer({"stopped": True})


def _answer(fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _put(store: MessageStore, setup: Setup, request: dict[str, Any]) -> dict[str, Any]:
    arrivals = array("q", little_endian(array("q", Path(request["arrivals"]).read_bytes())))
    gaps_ns, start = [], 0
    for count in request["counts"]:
        gaps_ns.append(arrivals[start : start + count])
        start += count
    found = measure(gaps_ns, checked_put(store, message_of(setup)))
    Path(request["answers"]).write_bytes(b"".join(map(little_endian, found)))
    return {"puts": start}


if __name__ == "__main__":
    main(*sys.argv[1:])
