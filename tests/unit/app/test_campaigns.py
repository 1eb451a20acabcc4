"""What a campaign has opened is closed, whichever way out it takes before its first run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from collie import wiring
from collie.app import campaigns
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.errors import HostUnreachable, StoreError
from collie.ports import ForeignUse, TestbedInfo
from collie.store.lock import CampaignLock
from collie.testing.fakes import FakeTestbed
from collie.wiring import ADAPTERS


@dataclass
class _Silent(FakeTestbed):
    """A testbed that does not answer."""

    @property
    def info(self) -> TestbedInfo:
        raise HostUnreachable("b", "192.0.2.2", "timed out")


@dataclass
class _Damaging(FakeTestbed):
    """A testbed that is looked at while the record of its campaign is damaged."""

    campaign: Path = Path()

    def foreign_uses(self) -> tuple[ForeignUse, ...]:
        with closing(sqlite3.connect(self.campaign / "campaign.sqlite")) as connection, connection:
            connection.execute("DELETE FROM campaign")
        return ()


@pytest.fixture
def choice(tmp_path: Path) -> SearchChoice:
    """Two hosts."""
    hosts = "".join(
        f"  {name}: {{address: {name}, data_address: 192.0.2.{n}, device: rxe0}}\n" for n, name in enumerate("ab", 1)
    )
    (tmp_path / "hosts.yaml").write_text(f"version: 1\nhosts:\n{hosts}")
    return SearchChoice(TestbedChoice(hosts=str(tmp_path / "hosts.yaml")), budget="5runs")


def be(testbed: FakeTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a testbed take the part of the hosts."""
    monkeypatch.setattr(wiring, "hosts_testbed", lambda choice, pair, policy: testbed)


@pytest.fixture
def begun(choice: SearchChoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A campaign that has been begun, and no more."""
    be(FakeTestbed(), monkeypatch)
    campaigns.begin(ADAPTERS, choice, tmp_path / "c").close()
    return tmp_path / "c"


def test_what_the_hosts_suggested_is_on_record(begun: Path) -> None:
    with ADAPTERS.records.read(begun) as store:
        settings = store.header.settings
    assert [settings[name] for name in ("space", "recipe", "terms")] == ["soft-roce"] * 3


def test_hosts_that_do_not_answer_any_more_leave_nothing_open(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = _Silent()
    be(silent, monkeypatch)
    with pytest.raises(HostUnreachable):
        campaigns.resume(ADAPTERS, begun, None)
    assert silent.closed
    CampaignLock(begun).close()


def test_a_record_that_cannot_be_gone_on_with_leaves_nothing_open(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = _Damaging(campaign=begun)
    be(testbed, monkeypatch)
    with pytest.raises(StoreError, match="it holds no campaign"):
        campaigns.resume(ADAPTERS, begun, None)
    assert testbed.closed
    CampaignLock(begun).close()


def test_a_campaign_that_cannot_be_begun_leaves_nothing_open(
    choice: SearchChoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    testbed = FakeTestbed()
    be(testbed, monkeypatch)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "fingerprint").write_text("")
    with pytest.raises(StoreError, match=r"fingerprint cannot be read: Not a directory"):
        campaigns.begin(ADAPTERS, choice, tmp_path / "c")
    assert testbed.closed
    CampaignLock(tmp_path / "c").close()
