"""The live view and its plain lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.campaign.budget import Budget
from collie.campaign.events import (
    AnomalyConfirmed,
    AnomalyExplained,
    AnomalyMerged,
    AnomalyReplaced,
    CampaignBegun,
    SuspicionDropped,
)
from collie.campaign.progress import CampaignProgress
from collie.cli.progress import ConsoleProgress, plain_line
from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.ports import HostLost
from collie.testing.store_suite import ANOMALY
from collie.workloads.feature import Mfs
from tests.support.standings import HOSTS, STANDING, displayed, finished

SLOW = Verdict(Outcome.ANOMALOUS, "host b is slow", Symptom.LOW_THROUGHPUT, 0.5, "b")


def test_the_live_view_shows_what_is_known() -> None:
    text = displayed(STANDING)
    for words in (
        "90% of 10.0 h", "about 2 s left", "812 measurements on 203 set-ups, 9.0 h",
        "5,200 runs per minute", "2,600 times as fast",
        "explaining an anomaly, driving mtt_cache_miss (best so far 1.25e+06), temperature 0.125",
        "2 anomalies, 1 explained",
        "the worst a1, pause, 79% of the throughput is missing",
        "server-1 up, server-2 up again (lost 2 times, the last time in run 40)",
        "3 runs, last run 40: host server-2 was lost: [bold]no answer[/]",
    ):  # fmt: skip
        assert words in text, text
    assert plain_line(STANDING).startswith("812 measurements on 203 set-ups, 9.0 h, 90% of the budget; 2 anomalies")


def test_the_live_view_claims_nothing_that_is_unknown() -> None:
    text = displayed(CampaignProgress())
    assert "no anomaly yet" in text
    assert not any(word in text for word in ("None", "pace", "hosts", "failed", "temperature", "left"))


def test_without_a_terminal_there_are_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with ConsoleProgress() as progress:
        progress.on_event(CampaignBegun(HOSTS, Budget(runs=10)))
        progress.on_event(finished(1, 0.1, HostLost("b", "b does not answer", 90.0)))
        progress.on_event(AnomalyConfirmed(ANOMALY))
        progress.on_event(AnomalyConfirmed(replace(ANOMALY, id="a2", symptom=Symptom.LOW_THROUGHPUT)))
        progress.on_event(AnomalyReplaced(replace(ANOMALY, id="a2", reason="host b is slow")))
        progress.on_event(AnomalyExplained(ANOMALY))
        progress.on_event(AnomalyExplained(replace(ANOMALY, complete=False, hint="")))
        progress.on_event(AnomalyExplained(replace(ANOMALY, complete=False, hint="", mfs=Mfs(()))))
        progress.on_event(AnomalyMerged(replace(ANOMALY, id="a2", same_as="a1")))
        progress.on_event(SuspicionDropped(22, SLOW))
        progress.on_event(SuspicionDropped(23, SLOW, 2, 12))
    displayed = capsys.readouterr()
    alone = "a2 now names the workload that shows it alone"
    assert displayed.out == ""
    assert displayed.err.splitlines() == [
        "run 1: b does not answer",
        f"a1 pause, run {ANOMALY.found_at_run}: {ANOMALY.reason}",
        f"a2 low throughput, run {ANOMALY.found_at_run}: {ANOMALY.reason}",
        f"   controls of a2 showed a second cause beside one that is explained; {alone}: host b is slow",
        f"   a1 needs {ANOMALY.mfs}",
        f"   a1 likely: {ANOMALY.hint}",
        f"   a1 is not explained to the end: so far it needs {ANOMALY.mfs}",
        "   a1 is not explained to the end",
        "   a2 is a1 again",
        "   run 22 did not show again: host b is slow",
        "   run 23 showed too rarely (2 of 12 runs): host b is slow",
    ]
