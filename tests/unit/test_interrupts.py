"""Ctrl-C where nobody can catch it."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from collie.interrupts import install_handlers


class Dropped:
    """Something whose end runs code."""


def drop(at_end: Callable[[], None]) -> None:
    dropped = Dropped()
    reference = weakref.ref(dropped, lambda _gone: at_end())
    del dropped
    assert reference() is None


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_python_swallows_comes_again(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        drop(lambda: signal.raise_signal(number))
        time.sleep(30)


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_during_an_import_waits_for_its_end(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The initialization of a compiled module may drop any exception."""
    source = f"import signal\ntry:\n    signal.raise_signal({number:d})\nexcept BaseException:\n    pass\n"
    name = f"drops_exceptions_{number:d}"  # an import runs once
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        importlib.import_module(name)
        time.sleep(30)
    assert name in sys.modules


@pytest.mark.usefixtures("heeded")
def test_the_second_interrupt_leaves_the_clean_up_alone_the_third_ends_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)
    assert capfd.readouterr().err == "cleaning up; once more ends it at once\n"
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("heeded")
def test_an_interrupt_that_a_shell_ignores_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        install_handlers()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


AT_ITS_END = """
import atexit, os, signal, threading, time
from collie.interrupts import install_handlers
install_handlers()
def tidy():
    time.sleep(0.3)
    print("tidy", flush=True)
atexit.register(tidy)
def other():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
threading.Thread(target=other).start()
"""


def test_an_interrupt_that_ends_the_wait_for_threads_is_not_repeated() -> None:
    done = subprocess.run([sys.executable, "-c", AT_ITS_END], capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout == "tidy\n", done.stderr


def test_other_unraisable_errors_are_reported_as_before(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.append(unraisable.exc_type))
    request.getfixturevalue("heeded")
    drop(lambda: [][0])
    assert reported == [IndexError]
