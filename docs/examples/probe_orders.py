"""Appends an order to a log. If its sync fails, the order is refused."""

import os

log = os.open("orders", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
os.fsync(log)
os.fsync(os.open(".", os.O_RDONLY))
try:
    os.write(log, b"one\n")
    os.fsync(log)
    print("one")
except OSError:
    print("refused one")
