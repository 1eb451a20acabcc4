"""`collie gate` as a CI calls it, in this process: exit codes, files, refusals; and the jobs that docs/ci offers."""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import os
import re
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from collie.app import baselines, gates
from collie.campaign.choice import GateChoice, SearchChoice, TestbedChoice
from collie.campaign.events import RunFinished
from collie.cli.main import cli, run
from collie.content.catalogs import load_catalog
from collie.content.subsystems import load_subsystem
from collie.inventory.safety import SafetyLimits
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import SimulatedTestbed
from collie.testing.fakes import ListSink
from collie.wiring import ADAPTERS

CI = Path(__file__).parents[2] / "docs" / "ci"


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A campaign on F with the firmware that cures #10."""
    path = tmp_path_factory.mktemp("gate") / "baseline"
    words = ["search", "--set", "firmware=22.31", "--budget", "120runs", "--seed", "1002", "--campaign", str(path)]
    assert run(words) == 0
    return str(path)


FORCED = ["--set", "relaxed_ordering=forced"]


def gate(baseline: str, tmp_path: Path, *words: str) -> int:
    return run(["gate", "--baseline", baseline, "--campaign", str(tmp_path / "gate"), "--seed", "7", *words])


def test_a_lost_cure_fails_the_gate_and_is_reproduced(
    baseline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    files = ["--junit", str(tmp_path / "gate.xml"), "--markdown", str(tmp_path / "gate.md")]
    words = ["--subsystem", "F", "--budget", "90runs", "--format", "json", *files]
    assert gate(baseline, tmp_path, *words) == 1
    reported = json.loads(capsys.readouterr().out)
    cases = {case["name"]: case for case in reported["cases"]}
    assert cases["nsdi22-10"]["change"] == "new"
    assert {name for name, case in cases.items() if case["change"] in ("new", "worse") and case["kind"] == "known"} == {
        "nsdi22-10"
    }
    assert 'type="new"' in (tmp_path / "gate.xml").read_text()
    assert "New (1)" in (tmp_path / "gate.md").read_text()
    report = (tmp_path / "gate" / "report.html").read_text()
    assert "<h1>Gate failed: 1 new" in report
    assert run(["report", str(tmp_path / "gate"), "-o", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_text() == report, "the answer is on record"
    capsys.readouterr()
    assert run(shlex.split(cases["nsdi22-10"]["reproduce"])[1:]) == 0
    capsys.readouterr()
    assert run(["status", str(tmp_path / "gate"), "--format", "json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["state"] == "ended"
    assert status["answer"].startswith("failed: 1 new, ")
    assert run(["list", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"  gate {status['answer']}")
    failed, following, small = str(tmp_path / "gate"), tmp_path / "next", ["--budget", "60runs", "--format", "json"]
    assert gate(failed, following, *small) == 2
    refused = json.loads(capsys.readouterr().err)["error"]["message"]
    assert "is a gate that failed: 1 new, " in refused
    assert refused.endswith("or accept them with --accept-failed-baseline")
    assert gate(failed, following, *small, "--accept-failed-baseline") in (0, 4)
    assert "is itself a gate that failed" in caplog.text
    after = json.loads(capsys.readouterr().out)
    assert after["counts"]["new"] == after["counts"]["worse"] == 0, "a gate is the baseline of the next one"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--budget", "4runs"], 4),
        (["--budget", "4runs", "--inconclusive", "pass"], 0),
        (["--budget", "4runs", "--exit-zero"], 0),
        (["--budget", "0runs"], 2),
        (["--false-alarm", "0"], 2),
        (["--under-test", ","], 2),
        (FORCED, 2),
        ([*FORCED, "--under-test", "settings", "--budget", "4runs"], 4),
        (["--subsystem", "H", "--under-test", "settings"], 2),
        (["--noise", "0"], 2),
        (["--drift", "0.1"], 2),
        (["--drift", "0.1", *FORCED, "--under-test", "settings,subsystem.drift", "--budget", "4runs"], 4),
        (["--baseline-hosts", "hosts.yaml"], 2),
    ],
)
def test_exit_codes(
    baseline: str, tmp_path: Path, words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(baseline, tmp_path, *words) == code
    assert "unforeseen" not in capsys.readouterr().err


def test_unlike_testbeds_are_refused_with_what_differs(
    baseline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(baseline, tmp_path, "--set", "relaxed_ordering=forced") == 2
    said = capsys.readouterr().err
    assert "subsystem.relaxed_ordering: per_mkey and forced" in said
    assert "--under-test firmware,subsystem.relaxed_ordering" in said
    assert "subsystem.hardware" not in said
    assert not (tmp_path / "gate").exists(), "nothing is written before it is known that the two may be compared"


def test_a_misspelt_word_for_what_is_under_test_is_refused(
    baseline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(baseline, tmp_path, "--under-test", "firmware,relaxed_order") == 2
    assert "--under-test relaxed_order: " in (said := capsys.readouterr().err)
    assert "did you mean 'relaxed_ordering'?" in said


def test_the_file_of_a_campaign_names_it(baseline: str, tmp_path: Path) -> None:
    assert gate(f"{baseline}/campaign.sqlite", tmp_path, "--budget", "4runs") == 4


def test_what_is_no_campaign_is_no_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate(str(tmp_path / "none"), tmp_path) == 2
    assert "none" in capsys.readouterr().err


def test_hosts_that_cannot_be_reached_give_no_answer_and_a_junit_file(
    baseline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(baseline, tmp_path, "--hosts", str(tmp_path / "none.yaml")) == 2
    assert "none.yaml" in capsys.readouterr().err


class Interrupting:
    """A `ProgressSink` that presses Ctrl-C."""

    def __init__(self, after: int) -> None:
        self._after = after

    def on_event(self, event: object) -> None:
        if isinstance(event, RunFinished) and event.record.run == self._after:
            raise KeyboardInterrupt


def test_an_interrupted_gate_goes_on_to_the_same_answer(
    baseline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--subsystem", "F", "--budget", "100runs", "--format", "json"]
    assert gate(baseline, tmp_path / "whole", *words) == 1
    whole = json.loads(capsys.readouterr().out)
    before, cut = baselines.read_baseline(ADAPTERS, baseline), tmp_path / "cut"
    choice = gates.recorded_gate(ADAPTERS, tmp_path / "whole" / "gate")
    for after in (20, whole["candidate_runs"] - 5):  # in the replay, and in the search
        with (
            pytest.raises(KeyboardInterrupt),
            gates.gate(ADAPTERS, choice, before, cut, Interrupting(after), resumed=after > 20) as opened,
        ):
            opened.run()
    assert run(["status", str(cut)]) == 0
    assert f"collie gate --resume {cut}" in capsys.readouterr().out
    assert run(["search", "--resume", str(cut)]) == 2
    assert f"collie gate --resume {cut}" in capsys.readouterr().err
    assert run(["gate", "--resume", str(cut), "--seed", "1"]) == 2
    assert "--seed" in capsys.readouterr().err
    assert run(["gate", "--resume", str(cut), "--format", "json", "--junit", str(tmp_path / "gate.xml")]) == 1
    reported = json.loads(capsys.readouterr().out)
    same = ("candidate_runs", "baseline_runs", "elapsed_seconds", "search_ended_by", "counts")
    assert [reported[key] for key in same] == [whole[key] for key in same]
    bare = [[{**case, "reproduce": ""} for case in each["cases"]] for each in (reported, whole)]
    assert bare[0] == bare[1], "but for the place of the record"
    assert run(["status", str(cut)]) == 0
    assert "None" not in capsys.readouterr().out
    assert (tmp_path / "gate.xml").exists()
    assert run(["report", str(cut)]) == 0
    assert f"collie gate --baseline {baseline}" in (cut / "report.html").read_text()


def inventory(path: Path, safety: str) -> str:
    hosts = "".join(f"  h{n}: {{address: m{n}, data_address: 192.0.2.{n}, device: mlx5_0}}\n" for n in (1, 2))
    path.write_text(f"version: 1\nhosts:\n{hosts}safety: {safety}\n")
    return str(path)


def test_each_side_of_a_gate_keeps_to_the_limits_of_its_own_hosts(
    baseline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = inventory(tmp_path / "here.yaml", "{pause_ms_per_second: 100, pause_seconds_per_campaign: 60}")
    there = inventory(tmp_path / "there.yaml", "{pause_ms_per_second: 20, pause_seconds_per_campaign: 5}")
    simulated = SimulatedTestbed(load_subsystem("F", SubsystemFile), load_catalog("simulated"), seed=1)
    monkeypatch.setattr("collie.app.gates.open_testbed", lambda _adapters, _choice, _seed: simulated)
    before = baselines.read_baseline(ADAPTERS, baseline)
    before = dataclasses.replace(
        before, choice=dataclasses.replace(before.choice, testbed=TestbedChoice(there)), fingerprints={}
    )
    search = SearchChoice(TestbedChoice(here), budget="1runs")
    with gates.gate(ADAPTERS, GateChoice(search, baseline, there, ("everything",)), before, None, ListSink()) as opened:
        opened.release()
    assert opened.safety["candidate"].limits == SafetyLimits(0.1, 60.0)
    assert opened.safety["baseline"].limits == SafetyLimits(0.02, 5.0)


@pytest.mark.usefixtures("heeded")
def test_an_interrupted_gate_says_what_it_has_done_to_the_network(
    baseline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 2.0)
        assert gate(baseline, tmp_path, "--subsystem", "F", "--budget", "40h", "--max-pause", "1h") == 130
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    said = capsys.readouterr().err
    assert "interrupted" in said
    assert re.search(r"^candidate: .*pause sent: ", said, re.MULTILINE)


def test_another_subsystem_is_refused_for_what_it_is(
    baseline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(baseline, tmp_path, "--subsystem", "H") == 2
    assert "subsystem.subsystem: F and H" in capsys.readouterr().err


def test_a_campaign_without_the_name_of_an_anomaly_is_refused_with_those_it_has(
    baseline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("reproduce", "export"):
        assert run([command, baseline]) == 2
        assert f"{baseline}/ID: a1" in capsys.readouterr().err


def test_what_a_campaign_could_not_explain_is_not_passed_over_in_silence(
    baseline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "rpc-library", "--against", baseline]) == 4, "two were not compared"
    with ADAPTERS.records.read(Path(baseline)) as store:
        unexplained = [each.id for each in store.anomalies() if not each.mfs.conditions and each.same_as is None]
    assert unexplained, "120 runs end before the second anomaly is explained"
    said = capsys.readouterr().out
    assert all(f"{baseline}/{name}" in said for name in unexplained)


def test_a_baseline_that_still_runs_is_named(baseline: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = tmp_path / "running"
    shutil.copytree(baseline, running)
    status = json.loads((running / "status.json").read_text())
    (running / "status.json").write_text(json.dumps({**status, "state": "running"}))
    baselines.read_baseline(ADAPTERS, str(running))
    assert f"{running} has not ended" in caplog.text


class Full(io.StringIO):
    """A file on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("words", "code"), [(["-o", "/dev/full"], 2), ([], 3)])
def test_a_full_disk_is_no_fault_of_collie(
    baseline: str, words: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout", Full())
    assert run(["runs", baseline, "--format", "csv", *words]) == code
    said = capsys.readouterr().err
    assert "No space left" in said
    assert "unforeseen" not in said


def test_a_gate_that_was_killed_before_its_second_record_was_whole_goes_on(
    baseline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(baseline, tmp_path, "--budget", "4runs") == 4
    shutil.rmtree(tmp_path / "gate" / "baseline")
    (tmp_path / "gate" / "baseline").mkdir()
    capsys.readouterr()
    assert run(["gate", "--resume", str(tmp_path / "gate"), "--format", "json"]) == 4
    reported = json.loads(capsys.readouterr().out)
    assert reported["candidate_runs"] + reported["baseline_runs"] == 4


def test_a_search_is_not_resumed_as_a_gate(baseline: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gate", "--resume", baseline]) == 2
    assert f"collie search --resume {baseline}" in capsys.readouterr().err
    assert run(["gate"]) == 2
    assert "--baseline" in capsys.readouterr().err


def test_a_gate_finds_the_file_of_its_subsystem_where_it_has_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nic.yaml").write_text("based_on: F\ntitle: a NIC of ours\n")
    assert run(["search", "--subsystem", "nic.yaml", "--budget", "10runs", "--campaign", "c"]) == 0
    small = ["gate", "--baseline", "c", "--budget", "4runs"]
    assert run([*small, "--campaign", "before"]) == 4
    answer = capsys.readouterr().out
    Path("moved").mkdir()
    Path("nic.yaml").rename("moved/nic.yaml")
    for words in ([*small, "--campaign", "after"], ["gate", "--resume", "before"]):
        assert run(words) == 2
        assert capsys.readouterr().err == (
            f"collie: {tmp_path}/nic.yaml: no such file; the campaign began on this subsystem. If the file has moved, "
            "give its path with --subsystem FILE\n"
        )
        assert run([*words, "--subsystem", "moved/nic.yaml"]) == 4
    capsys.readouterr()
    assert run(["gate", "--resume", "before"]) == 4, "the new path is on record"
    assert capsys.readouterr().out.splitlines()[0] in answer


def test_another_subsystem_is_not_the_moved_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nic.yaml").write_text("based_on: F\ntitle: a NIC of ours\n")
    Path("ours.yaml").write_text("based_on: H\ntitle: another NIC of ours\n")
    assert run(["search", "--subsystem", "nic.yaml", "--budget", "10runs", "--campaign", "c"]) == 0
    wide = ["--under-test", "everything", "--budget", "4runs"]
    assert run(["gate", "--baseline", "c", "--subsystem", "ours.yaml", *wide, "--campaign", "g"]) == 4
    capsys.readouterr()
    assert run(["gate", "--resume", "g", "--subsystem", "nic.yaml", "--accept-changes"]) == 2
    assert "g was begun on H, not on F" in capsys.readouterr().err
    Path("nic.yaml").unlink()
    assert run(["gate", "--baseline", "c", "--subsystem", "ours.yaml", *wide]) == 2
    said = capsys.readouterr().err
    assert (
        f"{tmp_path}/nic.yaml: no such file; the baseline was measured on it, and {tmp_path}/ours.yaml differs" in said
    )
    assert "subsystem.subsystem: F and H" in said
    assert said.endswith("Put the file back, or give its new path with --subsystem FILE\n")


@pytest.mark.parametrize("under_test", ["everything", "subsystem.hardware"])
def test_a_file_that_was_edited_is_not_compared_with_itself(
    under_test: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nic.yaml").write_text("based_on: F\ntitle: a NIC of ours\n")
    assert run(["search", "--subsystem", "nic.yaml", "--budget", "10runs", "--campaign", "c"]) == 0
    Path("new.yaml").write_text("based_on: F\ntitle: a NIC of ours\ncontext_cache: {entries: 24}\n")
    capsys.readouterr()
    words = ["gate", "--baseline", "c", "--under-test", under_test, "--budget", "4runs", "--campaign", "g"]
    assert run([*words, "--subsystem", "new.yaml"]) == 4, "a file of its own is another side"
    capsys.readouterr()
    Path("nic.yaml").write_text(Path("new.yaml").read_text())
    assert run(words) == 2
    said = capsys.readouterr().err
    assert "the baseline is not what it was when c measured it" in said
    assert f"Both sides would be what {tmp_path}/nic.yaml is now." in said


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(
    baseline: str, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "gate.xml", tmp_path / "absent" / "gate.xml", tmp_path):
        assert gate(baseline, tmp_path, option, str(path)) == 2
        assert f"{option} {path}" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# --- The jobs in docs/ci ----------------------------------------------------------------------------------------------


def scripts(value: Any) -> list[str]:
    """Return every string of a parsed job file."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for item in value.values() for text in scripts(item)]
        case list():
            return [text for item in value for text in scripts(item)]
    return []


def commands(path: Path) -> list[list[str]]:
    """Return the arguments of every call of Collie in a job file."""
    text = path.read_text()
    lines = scripts(yaml.safe_load(text)) if path.suffix == ".yml" else re.findall(r"(?<=')[^']+(?=')", text)
    calls = [line.strip() for block in lines for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in calls if re.match(r"(venv/bin/)?collie [a-z]", line)]


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml", "Jenkinsfile"])
def test_jobs_call_collie_by_options_that_it_has(name: str) -> None:
    calls = commands(CI / name)
    assert any(words[0] == "gate" for words in calls)
    for words in calls:
        group: click.Command = cli
        while isinstance(group, click.Group):
            found = group.get_command(click.Context(group), words.pop(0))
            assert found is not None
            group = found
        context = group.make_context("collie", words)
        assert not context.args


def test_gitlab_reads_the_junit_file_that_the_gate_writes() -> None:
    job = yaml.safe_load((CI / "gitlab-ci.yml").read_text())["gate"]
    assert f"--junit {job['artifacts']['reports']['junit']}" in " ".join(job["script"])


def test_github_gates_on_one_runner_at_a_time() -> None:
    workflow = yaml.safe_load((CI / "github-actions.yml").read_text())
    assert workflow["concurrency"] == "rdma-hosts"
    assert {tuple(job["runs-on"]) for job in workflow["jobs"].values()} == {("self-hosted", "rdma")}
