"""A conversation with something that is no agent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from collie.hosts.protocol import AgentClient, AgentGone
from tests.support.local_remote import LocalRemote

SAYS = "import sys; print(sys.argv[1], flush=True); sys.stdin.read()"


@pytest.mark.parametrize(
    "line", ["Welcome to node7", "5", '{"event": "sample", "clock": 1, "clock_end": 1, "flows": [1]}']
)
def test_what_is_no_line_of_the_protocol_ends_the_conversation_and_is_shown(tmp_path: Path, line: str) -> None:
    remote = LocalRemote("left", tmp_path)
    client = AgentClient("left", remote.open([sys.executable, "-c", SAYS, line]), lambda: 0.0)
    with pytest.raises(AgentGone) as caught:
        client.request("hello", 60.0)
    assert f"`{line[:80]}`" in str(caught.value)
    client.close()
    remote.close()
