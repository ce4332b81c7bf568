"""Every way to change a file is recorded exactly: the record replays to the same bytes."""

import pytest
from msgspec.structs import replace

from tests.faults.probe.steps import as_short_texts, steps_of, stories
from tests.faults.probe.tracing.programs import traced
from tornlog.faults.probe.record import STORE, Step
from tornlog.faults.probe.tracing import plain_stores, ptrace

_WAYS = r"""
= write continues at the position
f = file()
os.write(f, b"more")
> ... | write #0 @10000 'more'
= an appending write ignores its offset
file()
g = os.open("f", os.O_WRONLY | os.O_APPEND)
os.write(g, b"end")
os.pwrite(g, b"END", 5)
> ... | write #0 @10000 'end' | write #0 @10003 'END'
= a duplicate and a forked process share the position
f = file()
g = os.dup(f)
os.write(g, b"1")
in_child(lambda: os.write(f, b"child"))
os.write(g, b"2")
> ... | write #0 @10000 '1' | write #0 @10001 'child' | write #0 @10006 '2'
= a descriptor may be passed through a socket
f = file()
a, b = socket.socketpair()
socket.send_fds(b, [b"x"], [f])
in_child(lambda: os.pwrite(socket.recv_fds(a, 10, 1)[1][0], b"passed", 3))
> ... | write #0 @3 'passed'
= a call with too many buffers fails
f = file()
m = mmap.mmap(f, 8192)
assert libc.readv(f, ctypes.c_void_p(address(m)), ctypes.c_int(2**31 - 1)) == -1
m[0] = 98
> ... | store #0 'b'
= writev writes what several buffers hold
f = file()
os.writev(f, [b"x" * 10, b"y" * 5])
os.pwritev(f, [b"q" * 3, b"r"], 7)
> ... | write #0 @10000 'xxxxxxxxxxyyyyy' | write #0 @7 'qqqr'
= pwritev2 may sync, append, or continue at the position
f = file()
os.pwritev(f, [b"d"], 9, os.RWF_DSYNC)
os.pwritev(f, [b"app"], 0, os.RWF_APPEND)
vector = struct.pack("QQ", address(buffer := bytearray(b"here")), 4)
os.lseek(f, 100, 0)
done(libc.pwritev2(f, vector, 1, long(-1), 0))
> ... | write #0 @9 'd' | sync data #0 @9 +1 | write #0 @10000 'app' | write #0 @100 'here'
= sendfile and copy_file_range copy between files
f = file()
g = file("g", b"")
os.sendfile(g, f, 100, 5000)
os.copy_file_range(f, g, 3000, 0, 7000)
> ... | create /files/g #1 | write #1 'aaa...5000' | write #1 @7000 'aaa...3000'
= splice writes what a pipe holds
f = file()
r, w = os.pipe()
os.write(w, b"piped")
os.splice(r, f, 5, offset_dst=77)
> ... | write #0 @77 'piped'
= a direct write is read back
f = file(content=b"a" * 8192)
m = mmap.mmap(-1, 4096)
m[:] = b"D" * 4096
g = os.open("f", os.O_RDWR | os.O_DIRECT)
os.pwrite(g, m, 4096)
> create /files/f #0 | write #0 'aaa...8192' | write #0 @4096 'DDD...4096'
= a write to a synchronous descriptor is a sync
file()
g = os.open("f", os.O_WRONLY | os.O_DSYNC)
os.write(g, b"sync")
h = os.open("f", os.O_WRONLY | os.O_SYNC)
os.pwrite(h, b"all", 50)
> ... | write #0 'sync' | sync data #0 +4 | write #0 @50 'all' | sync #0 @50 +3
= a partial write is recorded in part
import resource
f = file(content=b"a" * 100)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (110, 110))
assert os.write(f, b"b" * 50) == 10
> create /files/f #0 | write #0 'aaa...100' | write #0 @100 'bbbbbbbbbb'
= a failing write is no step
f = file()
g = os.open("f", os.O_RDONLY)
try: os.write(g, b"x")
except OSError as error: assert error.errno == errno.EBADF
assert libc.write(f, long(8), 10) == -1
> ...
= asynchronous writes are recorded at their completion
f = file()
context = ctypes.c_ulong()
done(libc.syscall(IO_SETUP, 8, ctypes.byref(context)))
buffer = ctypes.create_string_buffer(b"asynchronous", 12)
def control(opcode, buffer, size, at):
    request = struct.pack("<QIiHhIQQqQII", 0, 0, 0, opcode, 0, f, buffer, size, at, 0, 0, 0)
    return ctypes.create_string_buffer(request, 64)
start = ctypes.addressof(buffer)
kept = control(1, start, 12, 2000), control(1, start, 5, 4000), control(3, 0, 0, 0)
wanted = (ctypes.c_void_p * 3)(*map(ctypes.addressof, kept))
assert libc.syscall(IO_SUBMIT, context, long(3), wanted) == 3
events = ctypes.create_string_buffer(96)
assert libc.syscall(IO_GETEVENTS, context, long(3), long(3), events, None) == 3
> ... | write #0 @2000 'asynchronous' | write #0 @4000 'async' | sync data #0
= asynchronous direct writes, too
f = file(content=b"a" * 8192)
context = ctypes.c_ulong()
done(libc.syscall(IO_SETUP, 8, ctypes.byref(context)))
m = mmap.mmap(-1, 4096)
m[:] = b"D" * 4096
g = os.open("f", os.O_RDWR | os.O_DIRECT)
request = struct.pack("<QIiHhIQQqQII", 0, 0, 0, 1, 0, g, address(m), 4096, 4096, 0, 0, 0)
control = ctypes.create_string_buffer(request, 64)
assert libc.syscall(IO_SUBMIT, context, long(1), (ctypes.c_void_p * 1)(ctypes.addressof(control))) == 1
assert libc.syscall(IO_GETEVENTS, context, long(1), long(1), ctypes.create_string_buffer(32), None) == 1
> create /files/f #0 | write #0 'aaa...8192' | write #0 @4096 'DDD...4096'
= ftruncate and truncate set the size
f = file()
os.ftruncate(f, 20000)
os.truncate("f", 50)
> ... | truncate #0 @20000 | truncate #0 @50
= opening may empty a file
file()
os.open("f", os.O_WRONLY | os.O_TRUNC)
os.close(os.open("f", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
> ... | truncate #0 | truncate #0
= fallocate makes a file longer
f = file()
os.posix_fallocate(f, 0, 30000)
> ... | allocate #0 +30000
= space that is only reserved is no step
f = file()
done(libc.fallocate(f, 1, long(0), long(90000)))
> ...
= a punched hole is zeros
f = file()
done(libc.fallocate(f, 3, long(100), long(5000)))
> ... | zero range #0 @100 +5000
= a zeroed range may make a file longer
f = file()
done(libc.fallocate(f, 0x10, long(9000), long(2000)))
done(libc.fallocate(f, 0x11, long(0), long(10)))
> ... | allocate #0 @9000 +2000 | zero range #0 @9000 +2000 | zero range #0 +10
= files are linked, renamed and unlinked
file()
os.link("f", "l")
os.unlink("f")
os.rename("l", "n")
file("o", b"o")
os.rename("o", "n")
> ... | link /files/f /files/l | unlink /files/f | rename /files/l /files/n | create /files/o #1 | write #1 'o'
> rename /files/o /files/n
= an unlinked file can still be written
f = file()
os.unlink("f")
os.write(f, b"still")
os.fsync(f)
> ... | unlink /files/f | write #0 @10000 'still' | sync #0
= a rename between two names of one file has no effect
file()
os.link("f", "l")
os.rename("f", "l")
os.unlink("f")
> ... | link /files/f /files/l | unlink /files/f
= renames that fail are no steps
file()
file("g", b"")
assert libc.renameat2(-100, b"f", -100, b"g", 1) == -1
assert libc.rename(b"none", b"g") == -1
> ... | create /files/g #1
= directories are made, renamed with their content, and removed
os.mkdir("d")
file("d/f", b"x")
os.rename("d", "e")
file("e/g", b"y")
os.unlink("e/g")
os.unlink("e/f")
os.rmdir("e")
> make directory /files/d | create /files/d/f #0 | write #0 'x' | rename /files/d /files/e | create /files/e/g #1
> write #1 'y' | unlink /files/e/g | unlink /files/e/f | remove directory /files/e
= two names are exchanged, also of a file and a directory
file()
file("g", b"G")
os.mkdir("d")
done(libc.renameat2(-100, b"f", -100, b"g", 2))
done(libc.renameat2(-100, b"f", -100, b"d", 2))
> ... | create /files/g #1 | write #1 'G' | make directory /files/d | exchange /files/f /files/g
> exchange /files/f /files/d
= symbolic links are made, followed, renamed and unlinked
file()
os.symlink("f", "s")
h = os.open("s", os.O_WRONLY | os.O_TRUNC)
os.write(h, b"z")
os.rename("s", "t")
os.unlink("t")
os.symlink("new", "u")
file("u", b"through")
> ... | symlink /files/s f | truncate #0 | write #0 'z' | rename /files/s /files/t | unlink /files/t
> symlink /files/u new | create /files/new #1 | write #1 'through'
= names are relative to descriptors and to the working directory
os.mkdir("d")
d = os.open("d", os.O_RDONLY)
f = os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=d)
os.mkdir("sub", dir_fd=d)
os.rename("x", "sub/y", src_dir_fd=d, dst_dir_fd=d)
os.chdir("d")
file("../top", b"t")
os.link("sub/y", "z")
os.unlink(os.getcwd() + "/z")
os.symlink("q", "w", dir_fd=d)
> make directory /files/d | create /files/d/x #0 | make directory /files/d/sub | rename /files/d/x /files/d/sub/y
> create /files/top #1 | write #1 't' | link /files/d/sub/y /files/d/z | unlink /files/d/z | symlink /files/d/w q
= names lead through symbolic links
os.mkdir("d")
os.symlink("d", "s")
file("s/f", b"x")
os.rename("s/f", "s/../g")
os.mkdir("s/e/")
> make directory /files/d | symlink /files/s d | create /files/d/f #0 | write #0 'x' | rename /files/d/f /files/g
> make directory /files/d/e
= a file without a name gets one
g = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
os.write(g, b"anonymous")
done(libc.linkat(-100, f"/proc/self/fd/{g}".encode(), -100, b"named", 0x400))
os.write(g, b"more")
> create #0 | write #0 'anonymous' | link /files/named #0 | write #0 @9 'more'
= a file without a name that never gets one
g = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
os.write(g, b"anonymous")
> create #0 | write #0 'anonymous'
= mknod makes a file
os.mknod("n", 0o100644)
os.write(os.open("n", os.O_WRONLY), b"x")
> create /files/n #0 | write #0 'x'
= temporary files are on the disk, too
file(os.environ["TMPDIR"] + "/t", b"x")
os.rename(os.environ["TMPDIR"] + "/t", "t")
> create /tmp/t #0 | write #0 'x' | rename /tmp/t /files/t
= syncs of files, of directories, and of all
f = file()
os.fsync(f)
os.fdatasync(f)
os.mkdir("d")
os.fsync(os.open("d", os.O_RDONLY))
os.fsync(os.open(".", os.O_RDONLY))
os.sync()
done(libc.syncfs(f))
> ... | sync #0 | sync data #0 | make directory /files/d | sync directory /files/d | sync directory /files
> sync all | sync all
= msync makes a range durable
f = file(content=b"a" * 12288)
m = mmap.mmap(f, 12288)
m[5000] = 66
m.flush(4096, 4096)
m.flush()
done(libc.msync(long(address(m)), long(4096), 1))
done(libc.sync_file_range(f, long(0), long(0), 7))
> create /files/f #0 | write #0 'aaa...12288' | store #0 @5000 'B' | sync data #0 @4096 +4096 | sync data #0
= stores through a map are recorded in order
f = file()
m = mmap.mmap(f, 8192)
m[0] = 65
os.write(f, b"between")
m[4096] = 66
m[1] = 67
m[1] = 67
> ... | store #0 'A' | write #0 @10000 'between' | store #0 @4096 'B' | store #0 @1 'C'
= a store may straddle two pages
f = file()
m = mmap.mmap(f, 8192)
ctypes.c_uint64.from_address(address(m, 4092)).value = 0x4242424242424242
> ... | store #0 @4092 'BBBB' | store #0 @4096 'BBBB'
= a map in the middle of a file, and a moved one
f = file(content=b"a" * 20000)
m = mmap.mmap(f, 4096, offset=8192)
m[3] = 66
start = done(libc.mmap(None, long(4096), 3, 1, f, long(0)))
moved = done(libc.mremap(ctypes.c_void_p(start), long(4096), long(16384), 1))
ctypes.memset(moved, 67, 2)
ctypes.memset(moved + 12288, 68, 2)
> create /files/f #0 | write #0 'aaa...20000' | store #0 @8195 'B' | store #0 'CC' | store #0 @12288 'DD'
= memory is set with the widest stores of the processor
f = file()
m = mmap.mmap(f, 8192)
for size in 3, 40, 300, 3000:
    ctypes.memset(address(m), size % 256, size)
> any
= a map becomes writable later
f = file()
start = done(libc.mmap(None, long(8192), 1, 1, f, long(0)))
done(libc.mprotect(ctypes.c_void_p(start), long(4096), 3))
ctypes.memset(start, 90, 10)
> ... | store #0 'ZZZZZZZZZZ'
= a map is unmapped in part, and another is replaced
f = file()
start = done(libc.mmap(None, long(8192), 3, 1, f, long(0)))
done(libc.munmap(ctypes.c_void_p(start), long(4096)))
ctypes.memset(start + 4096, 66, 3)
assert done(libc.mmap(ctypes.c_void_p(start + 4096), long(4096), 3, 0x32, -1, long(0))) == start + 4096
ctypes.memset(start + 4096, 67, 3)
> ... | store #0 @4096 'BBB'
= a private map and one for reading change nothing
f = file()
m = mmap.mmap(f, 4096, flags=mmap.MAP_PRIVATE)
m[0] = 66
n = mmap.mmap(f, 4096, prot=mmap.PROT_READ)
assert n[0] == 97
> ...
= a forked process shares a map
f = file()
m = mmap.mmap(f, 8192)
m[0] = 66
def child(): m[5] = 67; m[4096] = 68
in_child(child)
m[6] = 69
> ... | store #0 'B' | store #0 @5 'C' | store #0 @4096 'D' | store #0 @6 'E'
= another process maps the same file
f = file()
m = mmap.mmap(f, 4096)
m[0] = 66
def child(): n = mmap.mmap(f, 4096); n[1] = 67
in_child(child)
m[2] = 68
> ... | store #0 'B' | store #0 @1 'C' | store #0 @2 'D'
= the kernel reads into a map
f = file()
m = mmap.mmap(f, 8192)
g = file("g", b"0123456789")
view = memoryview(m)
os.lseek(g, 0, 0)
assert os.readv(g, [view[10:14], view[4094:4098]]) == 8
assert libc.pread(g, ctypes.c_void_p(address(m, 100)), long(3), long(2)) == 3
assert os.preadv(g, [view[200:202]], 4) == 2
> ... | create /files/g #1 | write #1 '0123456789' | store #0 @10 '012...4086' | store #0 @4096 '67'
> store #0 @100 '234' | store #0 @200 '45'
= the kernel receives into a map while another thread runs
f = file()
m = mmap.mmap(f, 4096)
a, b = socket.socketpair()
def send(): os.write(f, b"before"); b.send(b"sent"); b.send(b"again")
thread = threading.Thread(target=send)
thread.start()
assert a.recv_into(memoryview(m)[:4]) == 4
thread.join()
a.recvmsg_into([memoryview(m)[20:25]])
> ... | write #0 @10000 'before' | store #0 'sent' | store #0 @21 'gain'
= an interrupted receive into a map continues
f = file()
m = mmap.mmap(f, 4096)
a, b = socket.socketpair()
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.3)
threading.Timer(1.0, lambda: b.send(b"sent")).start()
assert libc.recv(a.fileno(), ctypes.c_void_p(address(m)), long(4), 0) == 4
> ... | store #0 'sent'
= the kernel fills a map with random bytes and a status
f = file()
m = mmap.mmap(f, 8192)
assert libc.getrandom(ctypes.c_void_p(address(m)), long(2), 0) == 2
done(libc.fstat(f, ctypes.c_void_p(address(m, 4096))))
> any
= any other call stores its results into a map
f = file(content=bytes(8192))
m = mmap.mmap(f, 8192)
os.symlink("target", "s")
assert libc.readlink(b"s", ctypes.c_void_p(address(m, 4094)), long(50)) == 6
child = os.fork()
if not child:
    os._exit(3)
assert libc.waitpid(child, ctypes.c_void_p(address(m)), 0) == child
> create /files/f #0 | write #0 '\x00\x00\x00...8192' | symlink /files/s target | store #0 @4094 'ta'
> store #0 @4096 'rget' | store #0 @1 '\x03'
= other programs are started from one with maps
import subprocess
f = file(content=bytes(8192))
m = mmap.mmap(f, 8192)
for number in range(2):
    m[number] = 65
    subprocess.run(["sh", "-c", f"echo {number} > out{number}"], check=True)
os.posix_spawn("/bin/sh", ["sh", "-c", "mv out0 moved"], os.environ)
os.wait()
m[8] = 66
thread = threading.Thread(target=lambda: os.execv("/bin/sh", ["sh", "-c", "echo last > last"]))
thread.start()
thread.join()
> create /files/f #0 | write #0 '\x00\x00\x00...8192' | store #0 'A' | create /files/out0 #1 | write #1 '0\n'
> store #0 @1 'A' | create /files/out1 #2 | write #2 '1\n' | rename /files/out0 /files/moved | store #0 @8 'B'
> create /files/last #3 | write #3 'last\n'
= a hole is punched through a map
f = file()
m = mmap.mmap(f, 8192)
done(libc.madvise(ctypes.c_void_p(address(m)), long(4096), 9))
> ... | zero range #0 +4096
= memory is copied to a map by one instruction
f = file(content=b"a" * 16384)
m = mmap.mmap(f, 16384)
m[100:12000] = b"c" * 11900
os.write(f, b"then")
> any
= a file may be longer than memory
f = file(content=b"x")
os.ftruncate(f, 1 << 34)
os.pwrite(f, b"far", (1 << 34) - 3)
m = mmap.mmap(f, 1 << 30)
m[1 << 29] = 66
> create /files/f #0 | write #0 'x' | truncate #0 @17179869184 | write #0 @17179869181 'far' | store #0 @536870912 'B'
= printed lines are promises in order
f = file()
print("one", flush=True)
os.write(f, b"x")
os.write(1, b"tw")
os.write(1, b"o\nthree\nrest")
> ... | acknowledge one | write #0 @10000 'x' | acknowledge two | acknowledge three
= explicit promises replace printed lines
f = file()
print("printed", flush=True)
p = int(os.environ["TORNLOG_PROMISES"])
os.write(p, b"promised\n")
os.writev(p, [b"and ", b"more\n"])
> ... | acknowledge promised | acknowledge and more
"""
_FILE = ["create /files/f #0", "write #0 'aaa...10000'"]
WAYS = stories(_WAYS, _FILE)
"""Programs and their steps by sentence. None: the steps depend on the processor or on chance."""


@pytest.mark.parametrize("sentence", WAYS)
def test_each_way_to_change_a_file_is_recorded_exactly(sentence: str) -> None:
    lines, expected = WAYS[sentence]

    assert_recorded(steps_of(traced(lines)), expected)


@pytest.mark.parametrize("sentence", [sentence for sentence, (lines, _) in WAYS.items() if "mmap" in lines])
def test_single_steps_without_the_core_are_recorded_exactly(sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_stores, "plain_store", lambda _: None)
    monkeypatch.setattr(ptrace, "CORE", None)
    lines, expected = WAYS[sentence]

    assert_recorded(steps_of(traced(lines)), expected)


def assert_recorded(steps: list[Step], expected: list[str] | None) -> None:
    assert len(steps) > 1
    if expected is not None and as_short_texts(steps) != expected:
        assert as_short_texts(_with_joined_stores(steps)) == expected


def _with_joined_stores(steps: list[Step]) -> list[Step]:
    """Join adjacent stores, because some C libraries set a few bytes with several instructions."""
    joined: list[Step] = []
    for step in steps:
        last = joined[-1] if joined else None
        is_next = last is not None and (last.kind, last.file, last.at + len(last.data)) == (STORE, step.file, step.at)
        if last is not None and is_next and step.kind == STORE and len(step.data) <= 8:
            joined[-1] = replace(last, data=last.data + step.data)
        else:
            joined.append(step)
    return joined


def test_the_catalogue_of_ways_to_change_a_file_is_large() -> None:
    assert len(WAYS) >= 40
