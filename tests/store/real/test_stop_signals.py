import os
import signal
import subprocess
import sys
import time
from threading import Event, Thread

import pytest

from tornlog.store.real.stop_signals import StopSignals

WAITER = """
import sys, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()  # blocks no signal
from tornlog.store.real.stop_signals import StopSignals
with StopSignals() as signals:
    print("waiting", flush=True)
    signals.wait()
    print("asked to stop", flush=True)
    if "linger" in sys.argv:
        threading.Event().wait(120)
"""


def test_a_signal_that_arrives_before_the_wait_is_not_lost() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        waited = Event()
        waiter = Thread(target=lambda: (signals._read_wanted(), waited.set()))
        waiter.start()
        waiter.join(60)
        assert waited.is_set()
    assert signal.getsignal(signal.SIGTERM) == before


def test_several_signals_that_arrive_before_the_wait_count_as_one() -> None:
    program = WAITER.replace("    signals.wait", "    sys.stdin.readline()\n    signals.wait")
    command = [sys.executable, "-c", program, "linger"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "asked to stop\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM


@pytest.mark.parametrize("waits", [False, True])
def test_stop_signals_leak_no_descriptor(waits: bool) -> None:
    def descriptors() -> int:
        return len(os.listdir("/dev/fd"))

    before = descriptors()
    with StopSignals() as signals:
        if waits:
            os.kill(os.getpid(), signal.SIGTERM)
            signals.wait()
        assert descriptors() == before + 2
    end = time.monotonic() + 60
    while descriptors() != before:
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_with_other_threads_continues_after_the_first_stop_signal(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        assert process.stdout.readline() == "asked to stop\n"
        assert process.wait(60) == 0


def test_the_second_stop_signal_ends_the_process() -> None:
    command = [sys.executable, "-c", WAITER, "linger"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.terminate()
        assert process.stdout.readline() == "asked to stop\n"
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
