"""Programs to probe, and their checks, for several tests."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.command_line import tornlog

SAVE = """
    import os, sys
    def save(value):
        with open("new", "w") as file:
            file.write(value)
            if "sync" in sys.argv:
                file.flush()
                os.fsync(file.fileno())
        os.replace("new", "value")
        if "sync" in sys.argv:
            directory = os.open(".", os.O_RDONLY)
            os.fsync(directory)
    for value in ("one", "two"):
        save(value)
        print(value)
    """

CHECK = """
    def check(directory, acknowledged):
        file = directory / "value"
        found = file.read_text() if file.exists() else None
        if acknowledged and found not in [acknowledged[-1], "two"]:
            yield f"value {acknowledged[-1]!r} is lost: found {found!r}"
    """

GONE = "value '…' is lost: found None"

WriteFile = Callable[[str, str], Path]

APPEND = """
    import os, sys
    from zlib import crc32
    log = os.open("log", os.O_RDWR | os.O_CREAT)
    directory = os.open(".", os.O_RDONLY)
    os.fsync(directory)
    for number in range(4):
        body = b"%035d " % number
        head = crc32(body) if "checksum" in sys.argv else len(body)
        os.pwrite(log, head.to_bytes(4, "big") + body, 40 * number)
        os.fsync(log)
        print(number)
    """

READ = """
    from zlib import crc32
    def check(directory, acknowledged):
        content = (directory / "log").read_bytes() if (directory / "log").exists() else b""
        found = 0
        for at in range(0, len(content) - 39, 40):
            head, body = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 40]
            if head not in (len(body), crc32(body)):
                break
            if body != b"%035d " % found:
                yield f"record {found} was never written: {body!r}"
            found += 1
        if found < len(acknowledged):
            yield f"{len(acknowledged)} were acknowledged, found {found}"
    """


invoke = partial(tornlog, "probe", columns=120)
