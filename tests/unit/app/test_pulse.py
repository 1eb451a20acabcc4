"""Files that a running campaign writes for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.app.pulse import Pulse
from collie.store.heartbeat import read_heartbeat
from collie.wiring import ADAPTERS
from tests.support.campaigns import HEADER


def test_a_textfile_that_cannot_be_written_ends_no_campaign(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file" / "one.prom"
    blocked.parent.touch()
    with Pulse(ADAPTERS, tmp_path, HEADER, blocked):
        pass
    assert [record.levelname for record in caplog.records] == ["WARNING"], "said once, not every time"
    assert read_heartbeat(tmp_path / "status.json") is not None
