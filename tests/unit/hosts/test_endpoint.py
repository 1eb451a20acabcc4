"""Steps on all hosts at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from collie.errors import HostUnreachable, TestbedError
from collie.hosts.endpoint import in_parallel
from collie.hosts.protocol import AgentGone


def fail(error: Exception) -> None:
    raise error


def test_the_gravest_error_is_raised() -> None:
    errors = (TestbedError("step"), HostUnreachable("a", "192.0.2.1", "no route"), AgentGone("b", "it ended"))
    with ThreadPoolExecutor(3) as executor:
        steps = {str(number): lambda error=error: fail(error) for number, error in enumerate(errors)}
        with pytest.raises(HostUnreachable):
            in_parallel(executor, steps)


def test_steps_of_a_testbed_that_is_closed_fail_as_its_run_does() -> None:
    begun, end = threading.Event(), threading.Event()

    def step() -> None:
        begun.set()
        end.wait(10)

    executor = ThreadPoolExecutor(1)
    with ThreadPoolExecutor(1) as other:
        run = other.submit(in_parallel, executor, {"a": step, "b": step})
        assert begun.wait(10)
        executor.shutdown(wait=False, cancel_futures=True)
        end.set()
        with pytest.raises(TestbedError, match="closed under its run"):
            run.result()
    with pytest.raises(TestbedError, match="closed under its run"):
        in_parallel(executor, {"a": step})
