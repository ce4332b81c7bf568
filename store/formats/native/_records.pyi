from ..columns import Pulled, Run

INTERFACE: int

def scan(
    log: memoryview,
    start: int,
    base_offset: int,
    check_crc: bool,
    queues: dict[bytes, int],
    stored_ms_max: int,
    rows: bytearray,
    keys: bytearray,
    /,
) -> tuple[int, int, int]: ...
def link(
    keys: bytearray,
    begin: int,
    end: int,
    index: memoryview,
    slots: int,
    newest: dict[int, int],
    number: int,
    begin_ms: int,
    /,
) -> tuple[bytes, int]: ...
def runs(rows: bytearray, count: int, queues: int, /) -> list[Run]: ...
def pull(
    entries: memoryview,
    log: memoryview,
    base_offset: int,
    begin: int,
    codes: frozenset[int] | None,
    count_max: int,
    bytes_max: int,
    /,
) -> Pulled: ...
