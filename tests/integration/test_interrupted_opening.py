"""Testbeds that are left while they are being opened are closed: nobody else knows of them yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.app import campaigns
from collie.campaign.choice import SearchChoice
from collie.ports import TestbedInfo
from collie.scheduler.local import LocalPairs
from collie.testing.fakes import FakeTestbed
from collie.wiring import ADAPTERS


class Interrupted(FakeTestbed):
    """Whoever asks what it is loses patience."""

    @property
    def info(self) -> TestbedInfo:
        raise KeyboardInterrupt


def test_pairs_close_their_testbeds_when_they_are_interrupted() -> None:
    testbeds = {"one": FakeTestbed(), "two": Interrupted(), "three": FakeTestbed()}
    with pytest.raises(KeyboardInterrupt):
        LocalPairs(testbeds)
    assert all(testbed.closed for testbed in testbeds.values())


def test_a_campaign_that_is_interrupted_when_it_is_resumed_lets_go_of_its_testbed_and_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "c"
    campaigns.begin(ADAPTERS, SearchChoice(budget="2runs"), directory).close()
    testbed = Interrupted()
    with monkeypatch.context() as patched:
        patched.setattr(campaigns, "open_testbed", lambda *_chosen, **_more: testbed)
        with pytest.raises(KeyboardInterrupt):
            campaigns.resume(ADAPTERS, directory, None)
    assert testbed.closed
    campaigns.resume(ADAPTERS, directory, None).close()
