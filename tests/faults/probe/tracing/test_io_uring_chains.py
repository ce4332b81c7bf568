"""Random chains of io_uring have the same results under the recorder as without it, and are recorded exactly."""

import subprocess
from pathlib import Path

import pytest

from tests.faults.probe.tracing.programs import needs_io_uring, python
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.tracing.ring_operations import ENTER
from tornlog.faults.probe.tracing.run import run_traced

pytestmark = needs_io_uring

SEEDS = range(12)
_PROGRAM = """
import random
draw = random.Random(SEED)
writable = file("f", b"")
readable, appending = os.open("f", os.O_RDONLY), os.open("f", os.O_WRONLY | os.O_APPEND)
plain = [writable, readable, appending, os.open(".", os.O_RDONLY), 77]
r = Ring(8, draw.choice([0, 1 << 12 | 1 << 13, 1 << 8, 1 << 7]))
r.register(13, at(struct.pack("IIQQQ", 8, 1, 0, 0, 0)), 32)
r.register(6, at(struct.pack("IIQ", 0, 0, at(struct.pack("iii", writable, readable, appending)))), 3)

def request():
    size, place = draw.choice([0, 1, 5, 4000, 9000]), draw.choice([0, 7, 4096, 10000])
    data = at(bytes([draw.randrange(65, 90)]) * size)
    name, other = (at(draw.choice([b"a", b"b", b"x/a", b"x/b", b"x"])) for _ in "12")
    slot, is_fixed = draw.choice([4, 6, 7]), draw.random() < 0.4
    fd, flags = (draw.choice([0, 1, 2, 3, 5, 6]), FIXED) if is_fixed else (draw.choice(plain), 0)
    how = os.O_CREAT | draw.choice([os.O_WRONLY, os.O_RDWR | os.O_TRUNC, os.O_RDWR | os.O_EXCL])
    return draw.choice([
        (flags, 0, WRITE, fd, place, data, size),
        (flags, 0, WRITE, fd, place, data, size),
        (flags, 0, WRITE, fd, 0, 1, size),  # EFAULT; elsewhere ext4 would make the file longer
        (flags, 0, WRITEV, fd, place, at(struct.pack("QQQQ", data, size, at(b"zz"), 2)), 2),
        (flags, 0, READ, fd, place, at(bytes(9000)), size),
        (flags, 0, FSYNC, fd, 0, 0, 0, draw.choice([0, 1])),
        (flags, 0, FTRUNCATE, fd, draw.choice([0, 100, 5000])),
        (flags, 0, ALLOCATE, fd, place, 3000, draw.choice([0, 1, 3])),
        (0, slot, OPENAT, -100, 0, name, 0o644, how),
        (0, slot, CLOSE, 0),
        (0, 0, MKDIRAT, -100, 0, name, 0o755),
        (0, 0, UNLINKAT, -100, 0, name, 0, draw.choice([0, 0x200])),
        (0, 0, RENAMEAT, -100, other, name, -100),
        (0, 0, LINKAT, -100, other, name, -100),
    ])

for _ in range(30):
    count = draw.randrange(1, 7)
    for number in range(count):
        flags, slot, *words = request()
        link = draw.choice([LINK, LINK, LINK, HARD]) if number < count - 1 else 0
        r.queue(*words, flags=flags | link, slot=slot, data=number)
    taken = r.enter(count, count)
    print(taken, sorted(r.take()), file=sys.stderr)
"""


@pytest.mark.ci
@pytest.mark.parametrize("seed", SEEDS)
def test_random_chains_have_the_results_of_the_kernel(
    seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = python(_PROGRAM.replace("SEED", str(seed)))
    alone = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

    run = run_traced(command, EMPTY, 60.0)

    assert (run.record.unseen, run.unlike, run.record.exit) == ((), [], 0)
    assert capfd.readouterr().err == alone.stderr
    assert any(step.call == ENTER for step in run.record.steps)
