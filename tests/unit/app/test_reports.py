"""What a report tells of a campaign beside its record."""

from __future__ import annotations

from pathlib import Path

from collie.app import campaigns
from collie.app.reports import write_report
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.summary import NotConfirmed
from collie.testing.fakes import ListSink
from collie.wiring import ADAPTERS
from tests.support.campaigns import fill
from tests.support.html_page import Page


def test_a_known_anomaly_bears_the_name_of_its_campaign_also_in_the_report(tmp_path: Path) -> None:
    """Both campaigns can have an a1."""
    known = campaigns.begin(ADAPTERS, SearchChoice(TestbedChoice(subsystem="F")), tmp_path / "june")
    fill(known.store)
    known.close()
    choice = SearchChoice(TestbedChoice(subsystem="G"), known=str(tmp_path / "june"), budget="10runs")
    here = campaigns.begin(ADAPTERS, choice, tmp_path / "here")
    summary = here.run(ListSink())
    here.close()
    assert summary.not_confirmed == {"june/a1": NotConfirmed.ABSENT}
    with ADAPTERS.records.read(tmp_path / "here") as store:
        page = Page(write_report(ADAPTERS, store).read_text())
    assert "Known elsewhere and healthy here: june/a1." in page.text
