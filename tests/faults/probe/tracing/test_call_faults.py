"""A fault at one call: the program gets the error, the record has a step, other calls are unchanged."""

from textwrap import dedent

import pytest

from tests.faults.probe.steps import as_short_texts, steps_of, stories
from tests.faults.probe.tracing.programs import python
from tornlog.faults.kinds import FaultKind
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.tracing.control import AS_IT_IS, CALL_FAULTS, CallFault, RunControl, parse_rule
from tornlog.faults.probe.tracing.process import TracedRun
from tornlog.faults.probe.tracing.run import run_traced

TRY = """
def tried(act, *arguments):
    try:
        print(act(*arguments), flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
def begun(name="f"):
    return os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
def interrupted(act, *arguments):  # as Python would not try again
    return (act(*arguments), errno.errorcode.get(ctypes.get_errno()))[1]
def submitted(f, *texts):
    context = ctypes.c_ulong()
    done(libc.syscall(IO_SETUP, 8, ctypes.byref(context)))
    buffers = [mmap.mmap(-1, 4096) for _ in texts]
    for buffer, text in zip(buffers, texts):
        buffer[:len(text)] = text
    requests = [
        struct.pack("<QIiHhIQQqQII", 7, 0, 0, 1, 0, f, address(buffer), len(text), 4096 * number, 0, 0, 0)
        for number, (buffer, text) in enumerate(zip(buffers, texts))
    ]
    controls = [ctypes.create_string_buffer(request, 64) for request in requests]
    wanted = (ctypes.c_void_p * len(texts))(*map(ctypes.addressof, controls))
    assert libc.syscall(IO_SUBMIT, context, long(len(texts)), wanted) == len(texts)
    assert [control.raw for control in controls] == requests
    events = ctypes.create_string_buffer(32 * len(texts))
    assert libc.syscall(IO_GETEVENTS, context, long(len(texts)), long(len(texts)), events, None) == len(texts)
    for _, _, result, _ in struct.iter_unpack("<QQqq", events):
        print(errno.errorcode.get(-result, result), flush=True)
"""
_STRUCK = r"""
= failed write 1: a failed write leaves the position unchanged
f = begun(); tried(os.write, f, b'one'); tried(os.write, f, b'two')
> ... | fault failed write EIO #0 | acknowledge EIO | write #0 'two' | acknowledge 3
= failed write 2: the second write fails, made by any call
f = begun(); tried(os.pwrite, f, b'one', 0); tried(os.writev, f, [b't', b'wo']); tried(os.write, f, b'x')
> ... | write #0 'one' | acknowledge 3 | fault failed write EIO #0 | acknowledge EIO | write #0 'x' | acknowledge 1
= disk full 1: a full disk refuses one write
f = begun(); tried(os.sendfile, f, os.open('/etc/passwd', os.O_RDONLY), 0, 8)
> ... | fault disk full ENOSPC #0 | acknowledge ENOSPC
= short write 1: a short write writes the first half and moves the position
f = begun(); tried(os.write, f, b'seven77'); tried(os.write, f, b'more')
> ... | fault short write 3 of 7 bytes #0 | write #0 'sev' | acknowledge 3 | write #0 @3 'more' | acknowledge 4
= short write 1: a short write of several buffers writes the first ones
f = begun(); tried(os.write, f, b'1'); tried(os.writev, f, [b'one', b'two', b'three'])
> ... | write #0 '1' | acknowledge 1 | fault short write 1 of 3 buffers #0 | write #0 @1 'one' | acknowledge 3
= failed write 2: an asynchronous write fails at its completion, without the others
f = begun(); submitted(f, b'x'); submitted(f, b'one', b'two'); submitted(f, b'three')
> ... | write #0 'x' | acknowledge 1 | write #0 @4096 'two' | fault failed write EIO #0 | acknowledge EIO
> acknowledge 3 | write #0 'three' | acknowledge 5
= disk full 1: an asynchronous direct write finds no space
begun(); f = os.open('f', os.O_RDWR | os.O_DIRECT); submitted(f, b'a' * 4096); submitted(f, b'b' * 4096)
> ... | fault disk full ENOSPC #0 | acknowledge ENOSPC | write #0 'bbb...4096' | acknowledge 4096
= interrupted call 2: an interrupted call has no effect
f = begun(); os.write(f, b'abc'); print(interrupted(libc.ftruncate, f, long(1)), flush=True); os.fsync(f)
> ... | write #0 'abc' | fault interrupted call EINTR #0 | acknowledge EINTR | sync #0
= failed creation 2: a failed creation creates nothing, with any call
begun(); begun(); tried(os.mkdir, 'd'); tried(os.mkdir, 'd')
> ... | fault failed creation ENOSPC | acknowledge ENOSPC | make directory /files/d | acknowledge None
= failed extend 1: a failed extend allocates nothing
f = begun(); tried(os.posix_fallocate, f, 0, 100); tried(os.path.getsize, 'f')
> ... | fault failed extend ENOSPC #0 | acknowledge ENOSPC | acknowledge 0
= failed sync 1: a failed sync is recorded as such
f = begun(); tried(os.fsync, os.open('.', os.O_RDONLY)); tried(os.fdatasync, f); tried(os.fsync, f)
> ... | sync directory /files | acknowledge None | failed sync data #0 | acknowledge EIO | sync #0 | acknowledge None
= failed sync 1: a failed sync of a map has its range
f = begun()
os.truncate(f, 3 * 4096)
m = mmap.mmap(f, 3 * 4096)
m[4096] = 7
tried(m.flush, 4096, 4096)
> ... | truncate #0 @12288 | store #0 @4096 '\x07' | failed sync data #0 @4096 +4096 | acknowledge EIO
= failed sync 1: a write with a failed sync has written and leaves the position unchanged
f = os.open('f', os.O_RDWR | os.O_CREAT | os.O_DSYNC); tried(os.write, f, b'one'); tried(os.write, f, b'two')
> ... | write #0 'one' | failed sync data #0 +3 | acknowledge EIO | write #0 'two' | sync data #0 +3 | acknowledge 3
= failed sync 1: a write with RWF_DSYNC can fail to sync
f = begun(); tried(os.pwritev, f, [b'x'], 5); tried(os.pwritev, f, [b'y'], 5, os.RWF_DSYNC)
> ... | write #0 @5 'x' | acknowledge 1 | write #0 @5 'y' | failed sync data #0 @5 +1 | acknowledge EIO
= failed sync 1: a failed syncfs covers all files
f = begun(); os.write(f, b'one'); libc.sync(); print(interrupted(libc.syncfs, f), flush=True)
> ... | write #0 'one' | sync all | failed sync | acknowledge EIO
= failed directory sync 1: a failed directory sync has no effect
f = begun(); os.fsync(f); tried(os.fsync, os.open('.', os.O_RDONLY))
> ... | sync #0 | fault failed directory sync EIO | acknowledge EIO
= lying sync 2: a lying sync succeeds
f = begun(); tried(os.fsync, f); tried(os.fsync, os.open('.', os.O_RDONLY))
> ... | sync #0 | acknowledge None | lying sync /files | acknowledge None
= lying sync 1: the sync of a write may lie
f = os.open('f', os.O_RDWR | os.O_CREAT | os.O_DSYNC); tried(os.write, f, b'one'); tried(os.write, f, b'two')
> ... | write #0 'one' | lying sync data #0 +3 | acknowledge 3 | write #0 @3 'two' | sync data #0 @3 +3
> acknowledge 3
"""
_AIMED = r"""
= failed-sync wal* #2: only files with that name are counted
f = begun(); g = begun('wal'); os.fsync(g); os.fsync(f); tried(os.fsync, f); tried(os.fsync, g); os.fsync(g)
> ... | create /files/wal #1 | sync #1 | sync #0 | sync #0 | acknowledge None
> failed sync #1 | acknowledge EIO | sync #1
= failed-write new: a file has its current name
f = begun(); os.write(f, b'a'); os.rename('f', 'new'); tried(os.write, f, b'b')
> ... | write #0 'a' | rename /files/f /files/new | fault failed write EIO #0 | acknowledge EIO
= failed-write sub/f #*: a glob with a slash matches the path, and all occurrences fail
f = begun(); os.mkdir('sub'); g = begun('sub/f')
for file in (f, g, g): tried(os.write, file, b'x')
> ... | make directory /files/sub | create /files/sub/f #1 | write #0 'x' | acknowledge 1
> fault failed write EIO #1 | acknowledge EIO | fault failed write EIO #1 | acknowledge EIO
= failed-creation *.log: only new files with that name fail
begun(); tried(begun, 'f.log'); os.mkdir('d')
> ... | fault failed creation ENOSPC | acknowledge ENOSPC | make directory /files/d
= short-write f 2/5: a short write writes its part
f = begun(); tried(os.write, f, b'five5'); tried(os.write, f, b'more')
> ... | fault short write 2 of 5 bytes #0 | write #0 'fi' | acknowledge 2 | write #0 @2 'more' | acknowledge 4
= torn-write f 2/5: a torn write writes its part, fails, and leaves the position unchanged
f = begun(); tried(os.write, f, b'five5'); tried(os.write, f, b'more')
> ... | fault failed write EIO after 2 of 5 bytes #0 | write #0 'fi' | acknowledge EIO | write #0 'more' | acknowledge 4
= torn-write: a torn write of buffers writes whole ones
f = begun(); tried(os.writev, f, [b'one']); tried(os.writev, f, [b'one', b'two'])
> ... | write #0 'one' | acknowledge 3
> fault failed write EIO after 1 of 2 buffers #0 | write #0 @3 'one' | acknowledge EIO
= disk-full after 1KiB: a full disk refuses writes, new files and allocations, and syncs what it has
f = begun(); tried(os.write, f, b'x' * 1000); tried(os.write, f, b'y' * 24); tried(os.write, f, b'z')
tried(begun, 'g'); tried(os.posix_fallocate, f, 0, 9); tried(os.fsync, f)
> ... | write #0 'xxx...1000' | acknowledge 1000 | write #0 @1000 'yyy...24' | acknowledge 24
> fault disk full ENOSPC #0 | acknowledge ENOSPC | fault disk full ENOSPC | acknowledge ENOSPC
> fault disk full ENOSPC #0 | acknowledge ENOSPC | sync #0 | acknowledge None
= disk-full after 1000: a write that crosses the limit is cut short there
f = begun(); tried(os.write, f, b'x' * 990); tried(os.write, f, b'y' * 24); tried(os.write, f, b'z')
> ... | write #0 'xxx...990' | acknowledge 990 | fault disk full 10 of 24 bytes #0 | write #0 @990 'yyyyyyyyyy'
> acknowledge 10 | fault disk full ENOSPC #0 | acknowledge ENOSPC
= disk-full after 8: buffers that cross the limit are cut inside, and unchanged afterwards
f = begun(); two = [b'three', b'seventh', b'last']; tried(os.writev, f, two); tried(os.pwritev, f, two, 0)
> ... | fault disk full 8 of 16 bytes #0 | write #0 'threesev' | acknowledge 8
> fault disk full ENOSPC #0 | acknowledge ENOSPC
= disk-full after 4: a copy that crosses the limit is cut short, but not one of a shorter file
f = begun(); g = begun('g'); os.write(f, b'ab'); tried(os.sendfile, g, f, 1, 9); tried(os.sendfile, g, f, 0, 9)
tried(os.write, g, b'c')
> ... | create /files/g #1 | write #0 'ab' | write #1 'b' | acknowledge 1
> fault disk full 1 of 9 bytes #1 | write #1 @1 'a' | acknowledge 1 | fault disk full ENOSPC #1 | acknowledge ENOSPC
= disk-full after 5: an asynchronous write that crosses the limit is cut short
f = begun(); submitted(f, b'sevens7')
> ... | fault disk full 5 of 7 bytes #0 | write #0 'seven' | acknowledge 5
"""
AIMED = stories(_AIMED, ["create /files/f #0"])
STRUCK = stories(_STRUCK, ["create /files/f #0"])
"""By fault and sentence."""


def fault_of(sentence: str) -> CallFault:
    kind, nth = sentence.partition(":")[0].rsplit(" ", 1)
    return CallFault(FaultKind(kind), int(nth))


def run_with_call_faults(lines: str, control: RunControl) -> TracedRun:
    return run_traced(python(TRY + dedent(lines)), EMPTY, 60.0, control=control)


@pytest.mark.parametrize("sentence", STRUCK)
def test_an_injected_fault_has_its_documented_effect(sentence: str) -> None:
    lines, expected = STRUCK[sentence]
    run = run_with_call_faults(lines, RunControl(fault_of(sentence)))

    assert as_short_texts(steps_of((run.record, run.unlike))) == expected
    assert len(run.record.injected) == 1
    assert run.record.exit == 0


@pytest.mark.parametrize("sentence", AIMED)
def test_a_rule_aims_a_fault_at_the_calls_that_it_names(sentence: str) -> None:
    lines, expected = AIMED[sentence]
    rule = parse_rule(sentence.partition(":")[0])
    assert isinstance(rule, CallFault)
    run = run_with_call_faults(lines, RunControl(rule))

    assert as_short_texts(steps_of((run.record, run.unlike))) == expected
    assert len(run.matched) == len(run.record.injected)
    assert run.record.exit == 0


def test_every_call_fault_has_a_test() -> None:
    assert {fault_of(sentence).kind for sentence in STRUCK} == set(CALL_FAULTS)


def test_standard_output_and_missing_calls_get_no_fault() -> None:
    lines = "f = begun(); tried(os.write, f, b'one')"
    as_it_is = run_with_call_faults(lines, AS_IT_IS)
    run = run_with_call_faults(lines, RunControl(CallFault(FaultKind.FAILED_WRITE, 2)))

    assert run.record.injected == []
    assert as_short_texts(list(run.record.steps)) == as_short_texts(list(as_it_is.record.steps))


def test_a_failing_program_is_recorded_up_to_its_end() -> None:
    run = run_with_call_faults(
        "f = begun(); os.fsync(f); print('synced')", RunControl(CallFault(FaultKind.FAILED_SYNC, 1))
    )

    assert run.record.exit == 1
    assert as_short_texts(list(run.record.steps)) == ["create /files/f #0", "failed sync #0"]
