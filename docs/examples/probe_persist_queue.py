"""Messages put to, and taken from, a file queue of persist-queue, three to a file.

    tornlog probe --check probe_persist_queue_check.py -- probe_persist_queue.py

Its documentation promises that "each queued item is stored on disk to survive crashes", and of put() that it will
"always persist immediately".
"""

import persistqueue

from tornlog.faults.probe import acknowledge

queue = persistqueue.Queue("queue", chunksize=3)
for number in range(1, 6):
    queue.put(f"message {number}")
    acknowledge(f"put {number}")
for number in range(1, 3):
    acknowledge(f"taking {number}")
    queue.get()
    queue.task_done()
    acknowledge(f"done {number}")
