"""The file with the state of a running campaign."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.campaign.progress import Heartbeat, ProcessState
from collie.errors import StoreError
from collie.store.heartbeat import read_heartbeat, write_heartbeat
from tests.support.standings import STANDING, UPDATED


def test_a_heartbeat_comes_back_as_it_was(tmp_path: Path) -> None:
    said = Heartbeat(ProcessState.FAILED, "server", 17, UPDATED, UPDATED, STANDING, None, "host a is gone")
    write_heartbeat(tmp_path / "status.json", said)
    assert read_heartbeat(tmp_path / "status.json") == said
    assert read_heartbeat(tmp_path / "none.json") is None


@pytest.mark.parametrize("text", ["", "[]", '{"schema_version": 1}', '{"schema_version": 99}', "\x00"])
def test_a_damaged_heartbeat_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "status.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=r"status\.json cannot be read"):
        read_heartbeat(path)
