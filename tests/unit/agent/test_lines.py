"""Lines between agent and controller."""

from __future__ import annotations

import os

from collie.agent.lines import Lines


def test_lines_arrive_whole_however_they_are_cut() -> None:
    read, write = os.pipe()
    lines = Lines(read, os.open(os.devnull, os.O_WRONLY))
    os.write(write, b'{"a": 1}\n{"b"')
    assert lines.receive() == [b'{"a": 1}']
    os.write(write, b": 2}\n\n")
    assert lines.receive() == [b'{"b": 2}']
    os.close(write)
    assert lines.receive() == []
    assert lines.closed


def test_a_reader_that_is_slow_or_gone_never_blocks_the_agent() -> None:
    read, write = os.pipe()
    lines = Lines(os.open(os.devnull, os.O_RDONLY), write)
    for _ in range(300):
        lines.send({"x": "y" * 1000})
    assert lines.backlog > 0
    os.close(read)
    lines.flush()
    assert lines.closed
    assert lines.backlog == 0
