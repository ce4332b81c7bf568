"""Appends orders to a log, each in a page of its own with a checksum."""

import os
import zlib

log = os.open("orders", os.O_CREAT | os.O_WRONLY)
os.fsync(os.open(".", os.O_RDONLY))
for order in ("one", "two"):
    record = f"{order} {zlib.crc32(order.encode())}"
    os.write(log, record.ljust(4096).encode())
    os.fsync(log)
    print(order)
