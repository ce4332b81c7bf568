"""Two orders: each goes to a log, then to a table, whose sync is to make both durable."""

import os

for directory in ("log", "data"):
    os.makedirs(directory, exist_ok=True)
log = os.open("log/wal", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
table = os.open("data/table", os.O_CREAT | os.O_WRONLY)
for number in range(2):
    os.write(log, b"order %d\n" % number)
    os.pwrite(table, b"%d" % number, 0)
    os.fsync(table)
    print(f"order {number}")
