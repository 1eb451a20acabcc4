"""A campaign over several processes: extended, resumed when finished, moved; and spaces narrowed to the bone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from collie.app import cases, inputs
from collie.app.campaigns import resume, resumed_testbed
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.cli.main import run
from collie.errors import UsageError
from collie.search.anomaly import Anomaly
from collie.store.heartbeat import read_heartbeat
from collie.store.sqlite import SqliteStore
from collie.wiring import ADAPTERS
from collie.workloads.workload import Memory


def anomalies(campaign: Path) -> tuple[Anomaly, ...]:
    with ADAPTERS.records.read(campaign) as store:
        return store.anomalies()


class _Interrupting:
    def on_event(self, event: object) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize(("budget", "state"), [(None, "ended"), ("6runs", "interrupted")])
def test_an_interrupt_leaves_a_campaign_ended_that_had_nothing_left_to_measure(
    tmp_path: Path, budget: str | None, state: str
) -> None:
    campaign = tmp_path / "c"
    assert run(["search", "--budget", "5runs", "--campaign", str(campaign)]) == 0
    opened = resume(ADAPTERS, campaign, budget)
    with pytest.raises(KeyboardInterrupt):
        opened.run(_Interrupting())
    opened.close()
    heartbeat = read_heartbeat(campaign / "status.json")
    assert heartbeat is not None
    assert (heartbeat.state, heartbeat.ended_by) == (state, "budget" if state == "ended" else None)


def test_a_finished_campaign_can_be_resumed_without_losing_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    diag = ["--recipe", "nsdi22-diag", "--seed", "1"]
    assert run(["search", *diag, "--budget", "40m", "--campaign", "c"]) == 0
    assert run(["search", "--resume", "c", "--budget", "150m"]) == 0
    extended = anomalies(tmp_path / "c")
    assert [anomaly.complete for anomaly in extended].count(True) >= 2
    assert run(["search", "--resume", "c"]) == 0  # goes on with the longer budget, which is spent
    assert anomalies(tmp_path / "c") == extended
    assert run(["search", "--resume", "c", "--budget", "15runs"]) == 2
    assert anomalies(tmp_path / "c") == extended
    assert run(["search", *diag, "--budget", "150m", "--campaign", "whole"]) == 0
    assert anomalies(tmp_path / "whole") == extended


def test_a_copy_of_the_record_alone_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["search", "--budget", "5runs", "--campaign", "c"]) == 0
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "c" / "campaign.sqlite", tmp_path / "copy")
    assert run(["search", "--resume", "copy", "--budget", "8runs"]) == 0
    assert "run" in (tmp_path / "copy" / "results.jsonl").read_text()


def test_what_is_kept_back_for_explanations_does_not_keep_a_campaign_from_being_extended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["search", "--seed", "1", "--budget", "15m", "--campaign", "c"]) == 0
    before = anomalies(tmp_path / "c")
    assert run(["search", "--resume", "c", "--budget", "1h"]) == 0
    extended = anomalies(tmp_path / "c")
    assert len(extended) > len(before)
    assert run(["search", "--resume", "c"]) == 0
    assert anomalies(tmp_path / "c") == extended


def test_a_campaign_is_read_and_resumed_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["search", "--seed", "1", "--budget", "80m", "--campaign", "first"]) == 0
    assert run(["search", "--seed", "2", "--budget", "20runs", "--known", "first", "--campaign", "second"]) == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert run(["search", "--resume", "../second", "--budget", "30runs"]) == 0
    assert run(["report", "../second"]) == 0


def test_what_a_narrow_campaign_knows_is_skipped_only_where_it_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    narrow = ["--fix", "opcode=READ", "--fix", "qp_type=RC", "--fix", "memory=dram"]
    assert run(["search", *narrow, "--budget", "1h", "--seed", "5", "--campaign", "reads"]) == 0
    (slow,) = (each for each in anomalies(tmp_path / "reads") if each.complete and each.workload.mtu <= 1024)
    known = inputs.search_inputs(ADAPTERS, SearchChoice(known="reads")).known
    assert any(each.covers(slow.workload) for each in known)
    outside = slow.workload.with_(memory=Memory.GPU)
    assert slow.mfs.covers(outside), "the set says nothing of what the campaign held"
    assert not any(each.covers(outside) for each in known)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--fix", "opcode=READ", "--fix", "qp_type=UD"],
            "space nsdi22 has no such workload: UD queue pairs cannot READ",
        ),
        (["--fix", "messages=1MiB", "--limit", "mr_bytes<=4KiB"], "no workload satisfies"),
        (["--fix", "sge_split=128,65536", "--fix", "sge_count=1"], "sge_split names 2 entries but sge_count is 1"),
    ],
)
def test_what_leaves_no_workload_is_refused_before_anything_is_written(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["search", "--budget", "5runs", *words]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["--fix", "mr_bytes=4KiB"],
        ["--fix", "qp_type=UD"],
        ["--fix", "send_wq_depth=1"],
        ["--limit", "messages<=1KiB", "--limit", "qps<=16"],
        ["--fix", "qp_type=UD", "--fix", "messages=64", "--fix", "qps=1", "--fix", "mtu=256"],
    ],
)
def test_a_narrowed_space_is_searched_and_its_plain_workload_runs(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["search", "--budget", "40runs", "--campaign", "c", *words]) == 0
    with ADAPTERS.records.read(tmp_path / "c") as store:
        choice = SearchChoice.from_settings(store.header.settings)
    space = inputs.narrowed_space_of(ADAPTERS, choice)
    assert space.complaints(space.base) == []


def test_a_reproduction_runs_on_the_campaigns_own_testbed_and_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--set", "relaxed_ordering=forced", "--fix", "mtu=1024", "--seed", "1", "--budget", "30m"]
    assert run(["search", "--campaign", "c", *words]) == 0
    named = cases.case_named(ADAPTERS, "c/a1")
    assert named.choice.testbed.settings == {"relaxed_ordering": "forced"}
    assert inputs.narrowed_space_of(ADAPTERS, named.choice).base.mtu == 1024
    assert run(["reproduce", "c/a1", "--repeat", "3"]) == 0


def test_a_reproduction_says_where_its_workload_is_simpler_than_the_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["search", "--recipe", "random", "--campaign", "c", "--seed", "1", "--budget", "30m"]) == 0
    with ADAPTERS.records.read(tmp_path / "c") as store:
        anomaly = store.anomalies()[0]
    capsys.readouterr()
    assert run(["reproduce", "c/a1", "--repeat", "1"]) in (0, 1, 4)
    assert "the simplest workload" not in capsys.readouterr().out
    with SqliteStore.open(tmp_path / "c") as writable:
        writable.add_anomaly(replace(anomaly, found_severity=0.97, found_reason="host b sends pause"))
    assert run(["reproduce", "c/a1", "--repeat", "1"]) in (0, 1, 4)
    found = f"{anomaly.symptom.words}, {replace(anomaly, severity=0.97).figure}"
    assert f"this is the simplest workload of a1; the one that was found: {found}" in capsys.readouterr().out


def test_what_is_handed_over_has_the_figures_of_its_own_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a vendor who runs the bundle sees another severity than it states."""
    monkeypatch.chdir(tmp_path)
    assert run(["search", "--campaign", "c", "--seed", "1", "--budget", "2h"]) == 0
    with ADAPTERS.records.read(tmp_path / "c") as store:
        anomalies, runs = store.anomalies(), list(store.runs(with_series=False))
    simplified = [each for each in anomalies if each.complete and each.workload != each.found_as]
    assert simplified
    for anomaly in simplified:
        own = {each.verdict.reason for each in runs if each.workload == anomaly.workload and each.verdict is not None}
        found = (each.verdict for each in runs if each.workload == anomaly.found_as)
        as_found = {verdict.reason for verdict in found if verdict is not None}
        assert anomaly.reason in own
        assert anomaly.found_reason in as_found


def test_a_campaign_goes_on_when_the_file_of_its_subsystem_has_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nic.yaml").write_text("based_on: F\ntitle: a NIC of ours\n")
    assert run(["search", "--subsystem", "nic.yaml", "--budget", "20m", "--campaign", "c"]) == 0
    Path("moved").mkdir()
    Path("nic.yaml").rename("moved/nic.yaml")
    capsys.readouterr()
    refused = (
        f"collie: {tmp_path}/nic.yaml: no such file; the campaign began on this subsystem. If the file has moved, "
    )
    for words in (["search", "--resume", "c"], ["search", "--resume", "c", "--dry-run"], ["reproduce", "c/a1"]):
        assert run(words) == 2
        assert capsys.readouterr().err == f"{refused}give its path with --subsystem FILE\n"
        if words[0] == "reproduce":
            assert run([*words, "--repeat", "1", "--subsystem", "moved/nic.yaml"]) == 0
    assert run(["search", "--resume", "c", "--subsystem", "G"]) == 2  # another subsystem
    assert run(["search", "--resume", "c", "--subsystem", "moved/nic.yaml", "--budget", "22m"]) == 0
    assert run(["search", "--resume", "c"]) == 0  # the new path is on record
    assert run(["reproduce", "c/a1", "--repeat", "1"]) == 0


def test_a_campaign_of_hosts_has_no_simulated_subsystem(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="began on real hosts"):
        resumed_testbed(TestbedChoice(hosts=str(tmp_path / "hosts.yaml")), "F")
