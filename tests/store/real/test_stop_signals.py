import os
import signal
import subprocess
import sys
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
        threading.Event().wait(30)
"""


def test_a_signal_that_comes_before_anyone_waits_is_not_lost() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        waited = Event()
        waiter = Thread(target=lambda: (signals._next(), waited.set()))
        waiter.start()
        waiter.join(10)
        assert waited.is_set()
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_with_other_threads_goes_on_after_the_first_signal(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        assert process.stdout.readline() == "asked to stop\n"
        assert process.wait(10) == 0


def test_the_second_signal_ends_the_process() -> None:
    command = [sys.executable, "-c", WAITER, "linger"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.terminate()
        assert process.stdout.readline() == "asked to stop\n"
        process.terminate()
        assert process.wait(10) == 128 + signal.SIGTERM
