"""Requests of io_uring are recorded one by one, in order and exactly. Skipped where the kernel has no io_uring."""

from pathlib import Path

import pytest

from tests.faults.probe.steps import as_short_texts, steps_of, stories
from tests.faults.probe.tracing.programs import compiled, needs_io_uring, python, traced
from tests.faults.probe.tracing.test_io_uring_programs import WITHOUT_LIBRARY
from tornlog.faults.probe.recording.run import EMPTY, ProgramError
from tornlog.faults.probe.tracing import ring_calls, rings
from tornlog.faults.probe.tracing.control import CallFault, RunControl, parse_rule
from tornlog.faults.probe.tracing.ring_operations import ENTER
from tornlog.faults.probe.tracing.run import record_traced, run_traced
from tornlog.faults.probe.tracing.source_lines import is_addr2line_installed

pytestmark = needs_io_uring

_WAYS = r"""
= a sync that is not linked runs before the writes of its call
f = file()
assert Ring().do((WRITE, f, 3, at(b"hello"), 5), (FSYNC, f), (WRITE, f, 7, at(b"world"), 5)) == [5, 0, 5]
> ... | sync #0 | write #0 @3 'hello' | write #0 @7 'world'
= a linked sync runs after the write
f = file()
assert Ring().do((WRITE, f, 3, at(b"hello"), 5, 0, {"flags": LINK}), (FSYNC, f, 0, 0, 0, 1)) == [5, 0]
> ... | write #0 @3 'hello' | sync data #0
= a sync with the flag for draining runs after the write
f = file()
assert Ring().do((WRITE, f, 3, at(b"hello"), 5), (FSYNC, f, 0, 0, 0, 0, {"flags": DRAIN})) == [5, 0]
> ... | write #0 @3 'hello' | sync #0
= a sync of a range, and of a directory
f = file()
d = os.open(".", os.O_RDONLY)
assert Ring().do((FSYNC, f, 100, 0, 50), (FSYNC, d)) == [0, 0]
> ... | sync #0 @100 +51 | sync directory /files
= a write at the current position, an appending one, and vectors
f = file()
os.lseek(f, 10, 0)
g = os.open("f", os.O_WRONLY | os.O_APPEND)
vector = at(struct.pack("QQQQ", at(b"one"), 3, at(b"two"), 3))
r = Ring()
assert r.do((WRITE, f, -1, at(b"here"), 4), (WRITE, g, 0, at(b"end"), 3), (WRITEV, f, 20, vector, 2)) == [4, 3, 6]
assert r.do((WRITEV, f, -1, vector, 2), (WRITE, f, 0, at(b"app"), 3, os.RWF_APPEND)) == [6, 3]
> ... | write #0 @10 'here' | write #0 @10000 'end' | write #0 @20 'onetwo' | write #0 @14 'onetwo'
> write #0 @10003 'app'
= a write that asks for its sync, by its flags or its descriptor
f = file()
g = os.open("f", os.O_WRONLY | os.O_DSYNC)
assert Ring().do((WRITE, f, 9, at(b"d"), 1, os.RWF_SYNC), (WRITE, g, 5, at(b"s"), 1)) == [1, 1]
> ... | write #0 @9 'd' | sync #0 @9 +1 | write #0 @5 's' | sync data #0 @5 +1
= fixed buffers and registered files
f = file()
r = Ring()
buffer = at(b"x" * 4096)
r.register(0, at(struct.pack("QQ", buffer, 4096)), 1)
r.register(2, at(struct.pack("iii", -1, f, os.open(".", os.O_RDONLY))), 3)
os.close(f)
fixed, drained = {"flags": FIXED}, {"flags": FIXED | DRAIN}
assert r.do((WRITE_FIXED, 1, 7, buffer, 12, 0, fixed), (FSYNC, 1, 0, 0, 0, 0, drained)) == [12, 0]
assert r.do((FSYNC, 2, 0, 0, 0, 0, fixed)) == [0]
> ... | write #0 @7 'xxxxxxxxxxxx' | sync #0 | sync directory /files
= registered files are updated, by calls and by requests
f, g = file(), file("g", b"G")
r = Ring()
r.register(13, at(struct.pack("IIQQQ", 4, 1, 0, 0, 0)), 32)
r.register(6, at(struct.pack("IIQ", 2, 0, at(struct.pack("ii", f, g)))), 2)
fixed = {"flags": FIXED}
assert r.do((WRITE, 3, 0, at(b"1"), 1, 0, fixed)) == [1]
assert r.do((UPDATE, -1, 2, at(struct.pack("ii", g, -1)), 2)) == [2]
assert r.do((WRITE, 3, 0, at(b"2"), 1, 0, fixed), (WRITE, 2, 0, at(b"3"), 1, 0, fixed)) == [-errno.EBADF, 1]
slots = at(struct.pack("i", f))
assert r.do((UPDATE, -1, 2**32 - 1, slots, 1)) == [1]
slot, = struct.unpack("i", ctypes.string_at(slots, 4))
assert r.do((WRITE, slot, 0, at(b"4"), 1, 0, fixed)) == [1]
r.register(3, None, 0)
> ... | create /files/g #1 | write #1 'G' | write #1 '1' | write #1 '3' | write #0 '4'
= direct descriptors are opened, written and closed in one chain
r = Ring()
r.register(13, at(struct.pack("IIQQQ", 4, 1, 0, 0, 0)), 32)
link, fixed = {"flags": LINK}, {"flags": FIXED | LINK}
assert r.do(
    (OPENAT, -100, 0, at(b"new"), 0o644, os.O_CREAT | os.O_WRONLY, link | {"slot": 3}),
    (WRITE, 2, 5, at(b"direct"), 6, 0, fixed), (FSYNC, 2, 0, 0, 0, 0, fixed), (CLOSE, 0, 0, 0, 0, 0, {"slot": 3}),
) == [0, 6, 0, 0]
assert r.do((WRITE, 2, 5, at(b"closed"), 6, 0, {"flags": FIXED})) == [-errno.EBADF]
slot, = r.do((OPENAT, -100, 0, at(b"new"), 0, os.O_WRONLY | os.O_TRUNC, {"slot": 2**32 - 1}))
assert r.do((WRITE, slot, 0, at(b"again"), 5, 0, {"flags": FIXED})) == [5]
> create /files/new #0 | write #0 @5 'direct' | sync #0 | truncate #0 | write #0 'again'
= files are opened and emptied
f, g = Ring().do((OPENAT, -100, 0, at(b"f"), 0o644, os.O_CREAT | os.O_RDWR, {"flags": LINK}),
    (28, -100, at(struct.pack("QQQ", os.O_RDWR | os.O_TRUNC, 0, 0)), at(b"f"), 24))
os.write(g, b"x")
> create /files/f #0 | truncate #0 | write #0 'x'
= sizes change
f = file()
assert Ring().do((FTRUNCATE, f, 20000), (ALLOCATE, f, 0, 30000, 0), (ALLOCATE, f, 100, 5000, 3)) == [0, 0, 0]
> ... | truncate #0 @20000 | allocate #0 +30000 | zero range #0 @100 +5000
= names change
file()
here = -100
assert Ring(16).do((MKDIRAT, here, 0, at(b"d"), 0o755), (LINKAT, here, at(b"d/l"), at(b"f"), here),
    (RENAMEAT, here, at(b"d/n"), at(b"d/l"), here), (SYMLINKAT, here, at(b"s"), at(b"f")),
    (UNLINKAT, here, 0, at(b"d/n")), (UNLINKAT, here, 0, at(b"d"), 0, 0x200)) == [0] * 6
> ... | make directory /files/d | link /files/f /files/d/l | rename /files/d/l /files/d/n | symlink /files/s f
> unlink /files/d/n | remove directory /files/d
= splice writes what a pipe holds
f = file()
r, w = os.pipe()
os.write(w, b"piped")
assert Ring().do((SPLICE, f, 77, 2**64 - 1, 5, 0, {"slot": r})) == [5]
> ... | write #0 @77 'piped'
= a direct write is read back
f = file(content=b"a" * 8192)
m = mmap.mmap(-1, 4096)
m[:] = b"D" * 4096
g = os.open("f", os.O_RDWR | os.O_DIRECT)
assert Ring().do((WRITE, g, 4096, address(m), 4096)) == [4096]
> create /files/f #0 | write #0 'aaa...8192' | write #0 @4096 'DDD...4096'
= lines are printed and promised
vector = at(struct.pack("QQ", at(b"2\n"), 2))
assert Ring().do((WRITE, 1, 0, at(b"printed\n"), 8, 0, {"flags": LINK}), (WRITEV, 1, -1, vector, 1)) == [8, 2]
> acknowledge printed | acknowledge 2
= a part of a map is removed
f = file()
m = mmap.mmap(f, 8192)
m[0] = 66
assert Ring().do((25, -1, 0, address(m), 4096, 9)) == [0]
m[1] = 67
> ... | store #0 'B' | zero range #0 +4096 | store #0 @1 'C'
= requests that fail are no steps
f = file()
g = os.open("f", os.O_RDONLY)
found = Ring().do((WRITE, g, 0, at(b"x"), 1), (UNLINKAT, -100, 0, at(b"none")), (WRITE, 99, 0, at(b"x"), 1),
    (WRITE, f, 0, 1, 9), (MKDIRAT, -100, 0, 1))
assert found == [-errno.EBADF, -errno.ENOENT, -errno.EBADF, -errno.EFAULT, -errno.EFAULT]
> ...
= an error cancels the rest of a chain, but not of a hard one
f = file()
g = os.open("f", os.O_RDONLY)
link, hard = {"flags": LINK}, {"flags": HARD}
x = at(b"x")
assert Ring().do((WRITE, f, 0, at(b"1"), 1, 0, link), (WRITE, g, 0, x, 1, 0, link), (WRITE, f, 5, x, 1, 0, link),
    (FSYNC, f), (WRITE, f, 1, at(b"2"), 1)) == [1, -errno.EBADF, -errno.ECANCELED, -errno.ECANCELED, 1]
assert Ring().do((WRITE, g, 0, x, 1, 0, hard), (WRITE, f, 2, at(b"3"), 1)) == [-errno.EBADF, 1]
> ... | write #0 '1' | write #0 @1 '2' | write #0 @2 '3'
= a partial write is recorded in part, and cancels the rest of its chain
import resource
f = file(content=b"a" * 100)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (110, 110))
assert Ring().do((WRITE, f, 100, at(b"b" * 50), 50, 0, {"flags": LINK}), (FSYNC, f)) == [10, -errno.ECANCELED]
> create /files/f #0 | write #0 'aaa...100' | write #0 @100 'bbbbbbbbbb'
= a copy by linked requests
f, g = file(), file("g", b"")
buffer = at(bytes(10000))
assert Ring().do((READ, f, 0, buffer, 5000, 0, {"flags": LINK}), (WRITE, g, 0, buffer, 5000)) == [5000, 5000]
> ... | create /files/g #1 | write #1 'aaa...5000'
= a limit of time for a write that ends before
f = file()
limit = at(struct.pack("QQ", 5, 0))
assert Ring().do((WRITE, f, 0, at(b"1"), 1, 0, {"flags": LINK}), (15, -1, 0, limit, 1)) == [1, -errno.ECANCELED]
> ... | write #0 '1'
= requests without a completion on success
f = file()
g = os.open("f", os.O_RDONLY)
r, x, skip, link = Ring(), at(b"x"), {"flags": SKIP}, {"flags": SKIP | LINK}
for words in (0, -1), (WRITE, f, 0, x, 1, 0, skip), (FSYNC, f, 0, 0, 0, 0, skip | {"data": 7}), (0, -1):
    r.queue(*words[:6], **(words[6] if len(words) > 6 else {}))
assert r.enter(4) == 4
assert r.take() == [(0, 0), (0, 0)]
r.queue(WRITE, g, 0, x, 1, flags=SKIP | LINK, data=1)
r.queue(WRITE, f, 0, x, 1, data=2)
assert r.enter(2) == 2
assert r.take() == [(1, -errno.EBADF)]
> ... | sync #0 | write #0 'x'
= requests with more completions than the queue has room for
f = file()
r = Ring(1)
for number in range(5):
    r.queue(WRITE, f, number, at(b"%d" % number), 1, data=number)
    assert r.enter(1) == 1
assert r.take() == [(0, 1), (1, 1)]
r.enter(0)
assert r.take() == [(2, 1), (3, 1)]
> ... | write #0 '0' | write #0 @1 '1' | write #0 @2 '2' | write #0 @3 '3' | write #0 @4 '4'
= a request that waits has the same user data as writes
f = file()
p, w = os.pipe()
r = Ring()
buffer = at(bytes(4))
r.queue(READ, p, 0, buffer, 4)
assert r.enter(1) == 1
for number in range(3):
    r.queue(WRITE, f, number, at(b"%d" % number), 1)
    assert r.enter(1, 1) == 1
    assert r.take() == [(0, 1)]
os.write(w, b"late")
assert (r.enter(0, 1), r.take()) == (0, [(0, 4)])
> ... | write #0 '0' | write #0 @1 '1' | write #0 @2 '2'
= a wait for a later event, while another thread writes
f = file()
p, w = os.pipe()
r = Ring()
def late():
    os.write(f, b"other")
    os.write(w, b"x")
r.queue(READ, p, 0, at(bytes(4)), 4)
r.queue(WRITE, f, 0, at(b"1"), 1, data=1)
thread = threading.Timer(0.1, late)
thread.start()
assert r.enter(2, 2) == 2
assert r.take() == [(1, 1), (0, 1)]
thread.join()
> ... | write #0 '1' | write #0 @10000 'other'
= a queue without an array, with one thread, whose completions are deferred
f = file()
for flags in 1 << 12 | 1 << 13, 1 << 8, 1 << 12 | 1 << 16, 1 << 7:
    r = Ring(flags=flags)
    assert r.do((WRITE, f, 0, at(b"1"), 1, 0, {"flags": LINK}), (FSYNC, f)) == [1, 0]
    assert r.do((FSYNC, f), (WRITE, f, 1, at(b"2"), 1)) == [0, 1]
> any
= threads share a ring, and a forked process does
f = file()
r, lock = Ring(32), threading.Lock()
def work(number):
    for turn in range(10):
        with lock:
            r.queue(WRITE, f, number * 10 + turn, at(b"%d" % number), 1)
            assert r.enter(1) == 1
            r.take()
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
in_child(lambda: work(5))
work(6)
> any
= a ring in the registered rings of a thread
f = file()
r = Ring()
update = at(struct.pack("IIQ", 2**32 - 1, 0, r.fd))
assert libc.syscall(427, r.fd, 20, long(update), 1) == 1
index, = struct.unpack("I", ctypes.string_at(update, 4))
r.queue(WRITE, f, 0, at(b"1"), 1)
assert libc.syscall(426, index, 1, 1, 1 | 16, None, long(0)) == 1
assert r.take() == [(0, 1)]
> ... | write #0 '1'
= memory that the program has given to a ring
f = file()
memory, requests = mmap.mmap(-1, 4096), mmap.mmap(-1, 4096)
params = bytearray(120)
struct.pack_into("<I", params, 8, 1 << 14)
struct.pack_into("<Q", params, 72, address(requests))
struct.pack_into("<Q", params, 112, address(memory))
r = Ring.__new__(Ring)
r.fd = done(libc.syscall(425, 4, (ctypes.c_char * 120).from_buffer(params)))
r.entries, r.completions = struct.unpack_from("<II", params)
r.submission, r.completion = struct.unpack_from("<7I", params, 40), struct.unpack_from("<7I", params, 80)
r.map, r.requests, r.has_array = memory, requests, True
assert r.do((WRITE, f, 0, at(b"1"), 1)) == [1]
> ... | write #0 '1'
= a request is submitted again, unchanged
f = file()
r = Ring(1)
r.queue(WRITE, f, 0, at(b"1"), 1, flags=LINK)
assert r.enter(1) == 1
r.word(r.submission[1], 2)
assert r.enter(1) == 1
assert (r.take(), r.requests[1]) == ([(0, 1), (0, 1)], LINK)
> ... | write #0 '1' | write #0 '1'
"""
_FAULTS = r"""
= failed-write #3: a failed write cancels the rest of its chain
r, f, link = Ring(), file(), {"flags": LINK}
found = r.do((WRITE, f, 0, at(b"1"), 1, 0, link), (WRITE, f, 1, at(b"2"), 1, 0, link), (FSYNC, f))
assert found == [1, -errno.EIO, -errno.ECANCELED], found
> ... | write #0 '1' | fault failed write EIO #0
= torn-write f 2/3: a part is written, and the write fails
r, f = Ring(), file(content=b"")
assert r.do((WRITE, f, 7, at(b"abc"), 3), (WRITE, f, 20, at(b"more"), 4)) == [-errno.EIO, 4]
> create /files/f #0 | fault failed write EIO after 2 of 3 bytes #0 | write #0 @7 'ab' | write #0 @20 'more'
= short-write #2: a short write to a registered file
r, f = Ring(), file()
r.register(2, at(struct.pack("i", f)), 1)
assert r.do((WRITE, 0, 7, at(b"abcd"), 4, 0, {"flags": FIXED})) == [2]
> ... | fault short write 2 of 4 bytes #0 | write #0 @7 'ab'
= disk-full after 10004: a write that crosses the limit is cut short there, and its chain ends
r, f, link = Ring(), file(), {"flags": LINK}
assert r.do((WRITE, f, 0, at(b"1"), 1, 0, link), (WRITE, f, 1, at(b"2345"), 4, 0, link), (FSYNC, f)) == [1, 3, -125]
> ... | write #0 '1' | fault disk full 3 of 4 bytes #0 | write #0 @1 '234'
= disk-full after 10005: buffers that cross the limit are cut inside, and unchanged afterwards
r, f = Ring(), file()
vector = at(struct.pack("QQQQ", at(b"one"), 3, at(b"three"), 5))
assert r.do((WRITEV, f, 2, vector, 2)) == [5]
assert struct.unpack("QQQQ", ctypes.string_at(vector, 32))[1::2] == (3, 5)
> ... | fault disk full 5 of 8 bytes #0 | write #0 @2 'oneth'
= failed-sync: a failed sync does not end its chain
r, f = Ring(), file()
r.register(2, at(struct.pack("i", f)), 1)
assert r.do((FSYNC, 0, 0, 0, 0, 0, {"flags": FIXED | LINK}), (WRITE, f, 0, at(b"1"), 1)) == [-errno.EIO, 1]
> ... | failed sync #0 | write #0 '1'
= lying-sync #2: a lying sync returns no error
f = file()
assert Ring().do((FSYNC, f), (FSYNC, f, 0, 0, 0, 1)) == [0, 0]
> ... | sync #0 | lying sync data #0
= lying-sync: a lying sync has no completion if it asks for none on success
f, r = file(), Ring()
r.queue(FSYNC, f, flags=SKIP)
assert (r.enter(1), r.take()) == (1, [])
> ... | lying sync #0
= failed-creation n*: no file is created
m, n = Ring().do(*((OPENAT, -100, 0, at(name), 0o644, os.O_CREAT) for name in (b"m", b"n")))
assert m > 0 and n == -errno.ENOSPC
> create /files/m #0 | fault failed creation ENOSPC
"""
_UNSEEN = r"""
= a change that waits for earlier requests
r, f, (p, w) = Ring(), file(), os.pipe()
r.queue(READ, p, 0, at(bytes(4)), 4)
r.enter(1)
r.queue(WRITE, f, 0, at(b"x"), 1, flags=DRAIN)
r.enter(1)
> any
= a change that is linked to operation 22
r, f, (p, w) = Ring(), file(), os.pipe()
os.write(w, b"x")
r.do((READ, p, 0, at(bytes(4)), 1, 0, {"flags": LINK}), (WRITE, f, 0, at(b"x"), 1))
> any
= a read of io_uring into a map
f = file()
m = mmap.mmap(f, 4096)
Ring().do((READ, f, 0, address(m), 10))
> any
= a write at the position of a registered file
r, f = Ring(), file()
r.register(2, at(struct.pack("i", f)), 1)
r.do((WRITE, 0, -1, at(b"x"), 1, 0, {"flags": FIXED}))
> any
"""
_REFUSED = r"""
= IORING_SETUP_SQPOLL (EPERM)
Ring(flags=2)
> any
= with the flags 0x80000000 (EINVAL)
Ring(flags=1 << 31)
> any
= operation 63 of io_uring (EINVAL)
f, g = file(), os.open("f", os.O_RDONLY)
assert Ring().do((WRITE, f, 0, at(b"x"), 1, 0, {"flags": LINK}), (63, f)) == [-errno.ECANCELED, -errno.EINVAL]
sys.exit(1)
> any
= a command to a file system by io_uring (EINVAL)
assert Ring().do((46, file())) == [-errno.EINVAL]
sys.exit(1)
> any
= rings that are resized (EINVAL)
Ring(flags=1 << 12 | 1 << 13).register(33, at(bytes(120)), 1)
> any
"""
_FIRST = ["create /files/f #0", "write #0 'aaa...10000'"]
_STORIES = stories(_WAYS, _FIRST)
_STRUCK = stories(_FAULTS, _FIRST)


@pytest.mark.parametrize(("program", "steps"), _STORIES.values(), ids=_STORIES.keys())
def test_requests_are_recorded_exactly(program: str, steps: list[str] | None) -> None:
    found = steps_of(traced(program))

    assert steps is None or as_short_texts(found) == steps
    assert steps == _FIRST or any(step.call == ENTER for step in found)


def test_before_linux_6_10_the_recorder_changes_the_completions_of_cancelled_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rings, "_INJECT_RESULT", 0)
    program, steps = _STORIES["an error cancels the rest of a chain, but not of a hard one"]

    assert as_short_texts(steps_of(traced(program))) == steps


def test_before_linux_5_17_io_uring_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_calls, "FEATURE_SKIP", 1 << 31)

    with pytest.raises(ProgramError, match=r"refused io_uring before Linux 5\.17 \(ENOSYS\)$"):
        traced("Ring()")


@pytest.mark.ci
def test_a_seed_orders_the_requests_of_threads() -> None:
    lines = """
        f, own = file(content=b""), [Ring(), Ring()]  # before the threads, because Python maps memory under its lock
        def work(number):
            for turn in range(4):
                own[number].do((WRITE, f, 4 * number + turn, at(b"%d" % number), 1))
        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """
    runs = [run_traced(python(lines), EMPTY, 60.0, control=RunControl(seed=seed)) for seed in (1, 2, 3, 1, 2, 3)]
    orders = [as_short_texts(steps_of((run.record, run.unlike))) for run in runs]

    assert orders[:3] == orders[3:]
    assert len({tuple(order) for order in orders}) > 1
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_a_request_has_the_source_lines_of_its_submission(tmp_path: Path) -> None:
    if not is_addr2line_installed():
        pytest.skip("addr2line is not installed")
    program = compiled(tmp_path, WITHOUT_LIBRARY, "-g", "-O1", "-pthread")
    record, _ = record_traced([program, "sync"], EMPTY, 60.0, takes_stacks=True)
    stacks = [record.stacks[step.stack] for step in record.steps if step.call == ENTER]

    assert len(stacks) == 24
    assert all("main" in [line.function for line in stack] for stack in stacks)


@pytest.mark.parametrize("sentence", _STRUCK)
def test_an_injected_fault_is_the_result_of_its_request(sentence: str) -> None:
    lines, expected = _STRUCK[sentence]
    rule = parse_rule(sentence.partition(":")[0])
    assert isinstance(rule, CallFault)
    run = run_traced(python(lines), EMPTY, 60.0, control=RunControl(rule))

    assert as_short_texts(steps_of((run.record, run.unlike))) == expected
    assert run.record.exit == 0
    assert len(run.matched) == 1


@pytest.mark.parametrize(("why", "lines"), [(why, lines) for why, (lines, _) in stories(_UNSEEN).items()])
def test_a_request_that_cannot_be_recorded_is_reported(why: str, lines: str) -> None:
    record, _ = traced(lines)

    assert [one.event for one in record.unseen] == [ENTER]
    assert why in record.unseen[0].detail


@pytest.mark.parametrize(("what", "lines"), [(what, lines) for what, (lines, _) in stories(_REFUSED).items()])
def test_a_refused_feature_is_named_when_its_program_fails(what: str, lines: str) -> None:
    with pytest.raises(ProgramError) as failed:
        traced(lines)

    assert str(failed.value).endswith(what)


def test_operations_that_the_recorder_does_not_know_are_not_listed_as_supported() -> None:
    steps_of(
        traced(
            """
            listed = ctypes.create_string_buffer(16 + 8 * 256)
            Ring().register(8, ctypes.addressof(listed), 256)
            assert listed.raw[0] <= 62 < listed.raw[1] + 1 and listed.raw[16 + 8 * 23 + 2] == 1
            assert not any(listed.raw[16 + 8 * code + 2] for code in range(63, listed.raw[1]))
            """
        )
    )
