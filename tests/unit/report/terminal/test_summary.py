"""Summaries, measurements and reproductions as text."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest

from collie.campaign.budget import Budget
from collie.campaign.reproduce import Reproduction
from collie.campaign.single_run import JudgedRun
from collie.campaign.summary import Summary, Unconfirmed
from collie.cli.main import cli
from collie.detect.bounds import UNBOUNDED
from collie.detect.measurement import GeneratorHealth, Victim
from collie.detect.reading import RunReading
from collie.detect.symptom import Outcome, Received, Symptom, Verdict
from collie.inventory.fingerprint import Fingerprint, compare
from collie.ports import Measured, SetupFailed, Unsupported
from collie.report.terminal.findings import findings_table, next_steps
from collie.report.terminal.summary import render_measurement, render_summary, render_trials
from collie.search.anomaly import Anomaly, LikelySame
from collie.search.second_cause import Floor
from collie.testing.fakes import FAKE_CATALOG, FakeTestbed
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Direction, QpType, Workload
from tests.support.campaigns import HEADER
from tests.support.summaries import SCORE, TELLING


def test_the_summary_is_sentences_without_colour_codes(summary: Summary) -> None:
    text = render_summary(HEADER, summary, 12.3, SCORE)
    lines = text.splitlines()
    assert lines[0] == (
        "2 anomalies, 1 explained, on simulated subsystem F in 71 runs: 30 min of testbed time, 12.3 s of wall time"
    )
    for anomaly in summary.anomalies:
        assert f"    {anomaly.sentence}" in lines
        assert f"    {anomaly.mfs}" in lines
    figures = "62% of the throughput is missing, found in run 5, confirmed after 2.7 min, not explained to the end"
    assert f"a2  low throughput, {figures}" in lines
    assert "3 runs could not be set up: 1 x agent gone, 2 x qp timeout." in lines
    assert "10 runs asked for what the device cannot do." in lines
    assert "Ended early: what was found explains all that could still be proposed." in lines
    assert (
        "Score: 1 of 2 planted mechanisms found, 1 explained to the end, 1 false; missed: loopback; "
        "hidden behind another cause: loopback; joined to another cause: a2; absent from this space: context_cache."
        in lines
    )
    assert "\x1b" not in text


def test_what_the_victim_beside_an_anomaly_keeps_is_told(summary: Summary) -> None:
    first, second = summary.anomalies
    lines = render_summary(HEADER, summary, 1.0, victims={second.id: Victim(8e9, 6e9)}).splitlines()
    keeps = "    the victim keeps 6 Gbit/s of 8 Gbit/s alone: 25% lost"
    assert lines.count(keeps) == 1
    assert lines.index(keeps) > lines.index(f"    {second.sentence}") > lines.index(f"    {first.sentence}")
    held_up = replace(summary, anomalies=(replace(first, symptom=Symptom.VICTIM_LOSS),))
    assert keeps not in render_summary(HEADER, held_up, 1.0, victims={first.id: Victim(8e9, 6e9)}), "it is its figure"


def test_what_is_joined_is_counted_beside_its_cause(summary: Summary) -> None:
    first, second = summary.anomalies
    chain = replace(second, same_as="a1"), replace(second, id="a3", same_as="a2"), replace(second, id="a4")
    text = render_summary(HEADER, replace(summary, anomalies=(first, *chain)), 1.0)
    assert text.startswith("2 anomalies, 1 explained, on ")
    assert "    seen 2 times more: a2, a3" in text.splitlines()
    assert "a4  low throughput" in text
    assert "a2  " not in text
    once = render_summary(HEADER, replace(summary, anomalies=(first, chain[0])), 1.0)
    assert "    seen once more: a2" in once.splitlines()


def test_the_summary_ends_with_a_table_worst_first_and_what_is_not_explained_last(summary: Summary) -> None:
    first, second = summary.anomalies
    bare = replace(first, id="a3", mfs=Mfs(()), complete=False, severity=0.99)
    after = replace(bare, id="a4", history=(Workload(),), made_for=Workload())
    begun = replace(first, id="a5", complete=False, severity=0.98)
    lines = render_summary(HEADER, replace(summary, anomalies=(bare, begun, first, after, second)), 1.0).splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("id  "))
    assert [line.split()[0] for line in lines[1:head] if line[:1] == "a"] == ["a5", "a1", "a4", "a2"]
    assert [line.split()[0] for line in lines[head + 1 :]] == ["a4", "a1", "a5", "a2", "a3"]
    assert lines[-1].endswith(f"not explained: {bare.workload.qp_type} {bare.workload.opcode}")
    likely = replace(bare, likely_same_as=LikelySame("a1", 0.618))
    *_, last = findings_table([first, likely])
    assert last.plain.endswith(
        f"not explained: {bare.workload.qp_type} {bare.workload.opcode}, 62% likely to share the cause of a1"
    )
    severities = [re.split(r"  +", line)[1] for line in lines[head + 1 :]]
    assert severities == ["99%", "18% of time", "98%", "62% missing", "99%"]
    columns = [lines[head].index(name) for name in ("symptom", "confirmed", "where, and when")]
    assert all(line[column - 1] == " " != line[column] for line in lines[head + 1 :] for column in columns)
    assert not any(line != line.rstrip() for line in lines)


def test_the_table_names_component_conditions_and_claim(full: Summary) -> None:
    anomaly = replace(full.anomalies[0], fresh_runs=5, fresh_shows=4, complete=True)
    _, row = findings_table([anomaly])
    assert "  4 of 5  " in row.plain
    assert row.plain.endswith(f"{anomaly.telling[0].component}: {anomaly.mfs}")
    assert list(findings_table([])) == []
    _, cut = findings_table([replace(anomaly, complete=False)])
    assert cut.plain.endswith(f"not explained to the end: {anomaly.telling[0].component}: {anomaly.mfs}")


def test_the_table_is_wrapped_between_words_at_the_width_of_a_terminal(summary: Summary) -> None:
    many = Mfs(tuple(Condition(name, Op.AT_LEAST, 64) for name in ("qps", "wqe_batch", "recv_wq_depth", "sge_count")))
    head, *rows = findings_table([replace(summary.anomalies[0], mfs=many)], 80)
    assert all(row.cell_len <= 80 for row in rows)
    left = head.plain.index("where, and when")
    assert " ".join(row.plain[left:].strip() for row in rows).endswith(str(many))
    assert all(not row.plain[:left].strip() for row in rows[1:])


def test_a_terminal_gets_whole_words_and_a_pipe_whole_lines(summary: Summary, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = render_summary(HEADER, summary, 1.0)
    assert any(len(line) > 80 for line in piped.splitlines())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    wrapped = re.sub(r"\x1b\[[0-9;]*m", "", render_summary(HEADER, summary, 1.0)).splitlines()
    assert max(map(len, wrapped)) <= 80
    words = piped.split()
    assert [word for line in wrapped for word in line.split()] == words
    long = next(each.sentence for each in summary.anomalies if len(each.sentence) > 80)
    begin = next(number for number, line in enumerate(wrapped) if line == f"    {long}"[: len(line)] and len(line) > 20)
    assert wrapped[begin + 1].startswith("    ")


@pytest.mark.parametrize(
    ("budget", "more"),
    [(Budget(seconds=36000), "15h"), (Budget(seconds=2700), "68m"), (Budget(runs=101), "152runs")],
)
def test_the_next_commands_are_those_of_the_worst_explained_anomaly(
    summary: Summary, budget: Budget, more: str
) -> None:
    first, second = summary.anomalies
    explained = [replace(first, severity=0.2), replace(second, complete=True, severity=0.4, id="a5")]
    bare = replace(first, id="a9", mfs=Mfs(()), complete=False, severity=0.9)
    report = Path("my campaigns/x/report.html")
    resume = "collie search --resume 'my campaigns/x'"
    steps = list(next_steps(report.parent, [*explained, bare], report, resume, interrupted=False, budget=budget))
    commands = [step.partition("  # ")[0].strip() for step in steps]
    assert commands == [
        "collie reproduce 'my campaigns/x/a5' --controls",
        "collie export 'my campaigns/x/a5' --as bundle",
        f"collie search --resume 'my campaigns/x' --budget {more}",
        "xdg-open 'my campaigns/x/report.html'",
    ]
    for command in commands[:3]:
        assert parses(shlex.split(command)[1:])
    cut = list(next_steps(report.parent, explained, report, resume, interrupted=True, budget=budget))
    assert cut[2].split("#")[0].strip() == "collie search --resume 'my campaigns/x'"
    nothing = list(next_steps(report.parent, [], report, resume, interrupted=False, budget=budget))
    assert [step.partition("  # ")[0].strip() for step in nothing] == [commands[2], commands[3]]
    unexplained = next_steps(report.parent, [bare], report, resume, interrupted=False, budget=budget, explains=False)
    assert not any("--resume" in step for step in unexplained), "its recipe explains nothing"
    healthy = next_steps(report.parent, [], report, resume, interrupted=False, budget=budget, spent=False)
    assert [step.split()[0] for step in healthy] == ["xdg-open"]


def test_the_next_command_breaks_the_conditions_only_of_what_is_explained(summary: Summary) -> None:
    first, second = summary.anomalies
    cut = replace(second, complete=False, severity=0.9)  # it has conditions, which may be too narrow
    bare = replace(first, id="a3", mfs=Mfs(()), complete=False, severity=0.95)

    def begins(*causes: Anomaly) -> tuple[str, str]:
        report, resume = Path("x/report.html"), "collie search --resume x"
        steps = next_steps(report.parent, causes, report, resume, interrupted=False, budget=Budget(seconds=3600))
        command, _, purpose = next(steps).partition("  # ")
        return command.strip(), purpose

    explained = "run the worst that is explained, and with each condition broken"
    assert begins(replace(first, severity=0.2), cut, bare) == ("collie reproduce x/a1 --controls", explained)
    assert begins(cut, bare) == ("collie reproduce x/a3", "run the worst again; none is explained yet")


def parses(words: list[str]) -> bool:
    """Whether click understands a command line."""
    context = click.Context(cli)
    command = cli.get_command(context, words[0])
    assert command is not None
    return command.make_context(words[0], words[1:], parent=context, resilient_parsing=True) is not None


def test_plain_traffic_that_is_anomalous_is_named_as_that(summary: Summary) -> None:
    first, second = summary.anomalies
    plain = (replace(first, is_plain=True), replace(second, mfs=Mfs(()), complete=False, is_plain=True))
    lines = render_summary(HEADER, replace(summary, anomalies=plain), 1.0).splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("a1  pause"))
    assert lines[begin + 1].startswith("    Plain traffic (RC ")
    assert lines[begin + 3] == (
        "    no counter is named: counters are compared with those of plain traffic, which itself shows this anomaly"
    )
    rows = {line.split()[0]: line for line in lines[-2:]}
    assert f"plain traffic itself, and {first.mfs}" in rows["a1"]
    assert "not explained: plain RC " in rows["a2"]
    told = replace(plain[0], telling=(TELLING,))
    assert "no counter is named" not in render_summary(HEADER, replace(summary, anomalies=(told,)), 1.0)


def test_a_mean_size_is_said_in_words(summary: Summary) -> None:
    mean = Mfs((Condition("mean_message_bytes", Op.AT_LEAST, 4096),))
    found = replace(summary.anomalies[0], mfs=mean)
    text = render_summary(HEADER, replace(summary, anomalies=(found,)), 1.0)
    assert " when the mean message has at least 4 KiB: " in text


def test_the_summary_tells_measurements_from_set_ups(summary: Summary) -> None:
    text = render_summary(HEADER, replace(summary, further_phases=50), 12.3)
    assert text.startswith(
        "2 anomalies, 1 explained, on simulated subsystem F in 71 measurements on 21 set-ups: 30 min"
    )


def test_the_summary_says_how_often_earlier_phases_changed_a_verdict(summary: Summary) -> None:
    text = render_summary(HEADER, replace(summary, repeated_phases=18, changed_phases=0), 12.3)
    differed = "0 of 18 normal phases differed when repeated on a fresh set-up"
    assert f"{differed}: carry-over from earlier phases in 0 to 18% of them." in text.splitlines()
    for repeated, told in ((10, True), (9, False)):  # few repeats tell nothing of all phases
        few = render_summary(HEADER, replace(summary, repeated_phases=repeated, changed_phases=0), 12.3)
        assert ("differed when repeated" in few) is told


def test_the_claim_is_that_of_fresh_runs(summary: Summary) -> None:
    found = replace(summary.anomalies[0], trials=17, passed=17)
    old = render_summary(HEADER, replace(summary, anomalies=(found,)), 1.0)
    assert ", explained in 7 runs (17 of 17 runs inside show it)" in old
    fresh = replace(found, fresh_runs=9, fresh_shows=9, revised=(found.mfs,))
    new = render_summary(HEADER, replace(summary, anomalies=(fresh,)), 1.0)
    assert ", explained in 7 runs, shows in 9 of 9 fresh runs (70 to 100%), revised once" in new
    assert "inside" not in new
    cut = render_summary(HEADER, replace(summary, anomalies=(replace(fresh, complete=False),)), 1.0)
    assert ", not explained to the end, shows in 9 of 9 fresh runs (70 to 100%)\n" in cut
    never = render_summary(HEADER, replace(summary, anomalies=(replace(fresh, fresh_shows=0),)), 1.0)
    assert "shows in 0 of 9 fresh runs (0 to 30%)" in never
    second = render_summary(HEADER, replace(summary, anomalies=(replace(fresh, floor=Floor(0.87)),)), 1.0)
    assert "shows in 9 of 9 fresh runs, with a severity of at least 87% (70 to 100%)" in second
    for packet_bytes, words in (
        (4096, "with less than 2.5 Mpps and 81.92 Gbit/s received"),
        (64, "with less than 2.5 Mpps received"),
    ):
        floor = Floor(0.87, Received(5e6 * 8 * packet_bytes, 5e6), 2.0)
        second = render_summary(HEADER, replace(summary, anomalies=(replace(fresh, floor=floor),)), 1.0)
        assert f"shows in 9 of 9 fresh runs, {words} (70 to 100%)" in second


def test_suspicions_that_show_too_rarely_are_listed(summary: Summary) -> None:
    verdict = Verdict(Outcome.ANOMALOUS, "host b sends pause for 2.0% of the time", Symptom.PAUSE, 0.02, "b")
    rare = tuple(Unconfirmed(run, Workload(), verdict, 1, 5) for run in range(3, 10))
    lines = render_summary(HEADER, replace(summary, unconfirmed=rare), 1.0).splitlines()
    listed = [line for line in lines if line.startswith("unconfirmed: ")]
    assert listed[:5] == [
        f"unconfirmed: host b sends pause for 2.0% of the time (run {run}, shows in 1 of 5 runs)" for run in range(3, 8)
    ]
    assert listed[5:] == ["unconfirmed: 2 more"]
    few = render_summary(HEADER, replace(summary, unconfirmed=rare[:5]), 1.0)
    assert few.count("unconfirmed: ") == 5


def test_the_summary_of_nothing_says_so(summary: Summary) -> None:
    empty = replace(summary, anomalies=(), failed_runs={}, unsupported_runs=0, ended_by="budget", runs=1)
    text = render_summary(HEADER, empty, 0.5)
    assert text == "No anomaly on simulated subsystem F in 1 run: 30 min of testbed time, 0.5 s of wall time"


def test_brackets_of_hosts_are_no_markup(summary: Summary) -> None:
    strange = replace(summary, failed_runs={"[red]ib_uverbs[/red] :smile:": 1})
    assert "1 x [red]ib_uverbs[/red] :smile:." in render_summary(HEADER, strange, 1.0)


def test_a_measurement_is_printed_with_its_verdict_and_counters(judged: JudgedRun) -> None:
    lines = render_measurement(judged, FAKE_CATALOG).splitlines()
    assert lines[0] == "RC SEND, messages [64 KiB]: qps 64 (sibling 16)"
    assert lines[1] == "anomalous: pause, 18.2% of the time"
    assert "host a  sends pause 0%, receives pause 0%" in lines
    assert any(line.startswith("host b  receives 100 Gbit/s, 3.05 Mpps (bound 100 Gbit/s") for line in lines)
    table = [line.split() for line in lines[lines.index("") :]]
    assert ["counter", "unit", "host", "a", "host", "b"] in table
    assert ["level", "percent", "50", "50"] in table  # a level is not per second
    assert next(row for row in table if row[:1] == ["rx_packets"])[1:] == ["packets/s", "0", "3,051,758"]


def test_a_host_that_gets_a_share_of_a_port_is_printed_with_its_share_of_the_bound(judged: JudgedRun) -> None:
    workload = Workload(responders=4)
    shared = replace(judged, workload=workload, result=FakeTestbed().measure(workload, 1))
    lines = render_measurement(shared, FAKE_CATALOG).splitlines()
    for host in "bcde":
        assert any(
            line.startswith(f"host {host}  receives 25 Gbit/s, 763 kpps (bound 25 Gbit/s, 750 kpps") for line in lines
        )


@pytest.mark.parametrize(
    ("qp_type", "headline"),
    [
        (QpType.RC, "RC SEND, qps 16, messages [64 KiB]: retry_cnt 3 (sibling 7)"),
        (QpType.UD, "UD SEND, qps 16, messages [64 KiB]: plain traffic"),
    ],
)
def test_the_headline_has_the_sizes_of_a_workload_and_no_field_that_cannot_act(
    judged: JudgedRun, qp_type: QpType, headline: str
) -> None:
    plain = judged.sibling.with_(qp_type=qp_type, max_rd_atomic=4)  # without READs
    other = replace(judged, workload=plain.with_(retry_cnt=3, max_rd_atomic=16), sibling=plain)
    assert render_measurement(other, FAKE_CATALOG).splitlines()[0] == headline


def test_a_measurement_names_its_problems(judged: JudgedRun) -> None:
    assert isinstance(judged.result, Measured)
    measurement = judged.result.measurement
    weak = replace(
        measurement,
        stable=False,
        health=GeneratorHealth(driven=False, reason="one CPU"),
        hosts=(
            replace(
                measurement.hosts[0],
                tx_pause_ratio=None,
                tx_pause_frames=1234.0,
                loss_ratio=0.02,
                counters={"level": None},
            ),
            measurement.hosts[1],
        ),
        notes=("host a: PFC is off",),
    )
    reported = render_measurement(
        replace(judged, result=replace(judged.result, measurement=weak), bound=UNBOUNDED), FAKE_CATALOG
    )
    assert "not stable; the generator could not drive the workload: one CPU" in reported
    assert "sends 1,234 pause frames/s; loses 2.0% of its packets" in reported
    assert "note: host a: PFC is off" in reported
    assert "bound unbounded, unbounded by the specification" in reported
    assert "unknown" in reported
    failed = render_measurement(
        replace(judged, result=SetupFailed("qp timeout", "qp 3", 9.0), verdict=None), FAKE_CATALOG
    )
    assert failed.splitlines()[1:] == ["could not be set up: qp timeout", "    qp 3"]
    refused = render_measurement(replace(judged, result=Unsupported("no GPU", 0.5), verdict=None), FAKE_CATALOG)
    assert refused.splitlines()[1:] == ["unsupported: no GPU"]


def test_a_reproduction_is_printed_with_its_controls(reproduction: Reproduction) -> None:
    assert render_trials("nsdi22-01", reproduction).splitlines() == [
        "reproduced: yes",
        "nsdi22-01: pause in 2 of 3 runs, normal in 0, inconclusive in 1 (34 to 100% of its runs, 95% confidence)",
        "    anomalous: host b sends pause",
        "    anomalous: host b sends pause",
        "    inconclusive: link changed",
        "    delivered: 50 Mbit/s (40 Mbit/s to 60 Mbit/s); severity: 30% (20 to 40%)",
        "too little is on record of which counters it raised when it was found, so they are not compared",
        "without qps >= 64 (opcode WRITE and qps 8): pause in 0 of 3 runs, normal in 3",
        "    delivered: 1 Gbit/s",
        "no value of the space breaks opcode == SEND alone",
        "what it was found on is not on record, so nothing can be said of what differs",
    ]


def test_throughput_of_several_hosts_is_called_a_sum(reproduction: Reproduction) -> None:
    both = replace(reproduction.trial, workload=reproduction.trial.workload.with_(direction=Direction.BIDIRECTIONAL))
    lines = render_trials("nsdi22-01", replace(reproduction, trial=both)).splitlines()
    assert [line.strip().partition(":")[0] for line in lines if "delivered" in line] == [
        "delivered, both directions together",
        "delivered",
    ]


@pytest.mark.parametrize(
    ("then", "now", "where"),
    [
        ("B", "F", ", on simulated subsystem F, another one than B, where it was found"),
        ("B", None, ", on hosts, not on simulated subsystem B, where it was found"),
        (None, "F", ", on simulated subsystem F, not on the hosts where it was found"),
    ],
)
def test_the_answer_names_another_subsystem(
    reproduction: Reproduction, then: str | None, now: str | None, where: str
) -> None:
    sides = [{"subsystem": {"subsystem": name} if name else {}} for name in (then, now)]
    here, there = ({"x": Fingerprint(side)} for side in sides)
    assert render_trials("a", reproduction, compare(here, there)).splitlines()[0] == f"reproduced: yes{where}"
    assert render_trials("a", reproduction, compare(here, here)).splitlines()[0] == "reproduced: yes"


@pytest.mark.parametrize(
    ("stray", "headline"),
    [(2, "reproduced: yes, but another symptom shows in 1 of 2 controls: see below"), (1, "reproduced: yes")],
)
def test_a_control_with_another_symptom_is_not_normal(reproduction: Reproduction, stray: int, headline: str) -> None:
    (control,) = reproduction.controls
    slow = RunReading(Verdict(Outcome.ANOMALOUS, "host b receives little", Symptom.LOW_THROUGHPUT, 0.5, "b"))
    readings = (*(slow,) * stray, *control.readings[stray:])
    found = replace(reproduction, controls=(control, replace(control, readings=readings)))
    lines = render_trials("nsdi22-01", found).splitlines()
    assert lines[0] == headline
    told = f"without qps >= 64 (opcode WRITE and qps 8): pause in 0 of 3 runs, normal in {3 - stray}"
    assert lines[lines.index(told) + 1] == f"    not the same symptom: low throughput in {stray}"
    assert found.exit_code == 0


def test_colour_is_left_out_on_request_and_put_in_for_a_terminal(
    summary: Summary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in render_summary(HEADER, summary, 1.0)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in render_summary(HEADER, summary, 1.0)
    assert "\x1b[1;31m" not in render_summary(HEADER, summary, 1.0)


def test_counters_and_expectations_are_in_the_text(full: Summary) -> None:
    text = render_summary(HEADER, full, 12.3)
    assert "moved most against healthy plain traffic: pressure (receive WQE cache, over 1000 times)" in text
    assert "likely: receives are late" in text
    why = "3 of 9 kinds were seen in only one stretch of the search"
    assert f"Another find in the next hour: 12%, because {why}; explanations took 14 of the 71 runs." in text
    assert "1 of 60 runs looked anomalous and could not be confirmed; chance of a false anomaly: under 0.1%" in text


def test_what_was_found_stands_beside_the_simplest_workload_if_it_showed_more(summary: Summary) -> None:
    first, second = summary.anomalies
    worse = replace(first, found_severity=0.9, found_reason="host b sends pause for 90.0% of the time")
    same = replace(second, found_severity=second.severity, found_reason=second.reason)
    text = render_summary(HEADER, replace(summary, anomalies=(worse, same)), 1.0)
    assert "a1  pause, 18.2% of the time (90.0% of the time as found), found in run" in text
    assert text.count(" as found)") == 1


@pytest.mark.parametrize(
    ("here", "found", "words"),
    [
        (
            (0.019, "0.6% of the time", "1.9%"),
            (0.074, "7.4% of the time", ""),
            "1.9%, 0.6% of the time (7.4% of the time",
        ),
        ((0.367, "36.7% of the time", ""), (0.33, "17.9% of the time", "33%"), "36.7% of the time (17.9% of the time"),
        ((0.4, "9.5% of the time", "40%"), (0.43, "10.7% of the time", "43%"), "40% (43%"),
        ((0.367, "36.7% of the time", ""), (0.33, "unknown", "33%"), "36.7% of the time (33%, another measure,"),
    ],
)
def test_a_share_of_time_is_not_compared_with_one_of_throughput(
    summary: Summary, here: tuple[float, str, str], found: tuple[float, str, str], words: str
) -> None:
    def reason(pause: str, below: str) -> str:
        return f"host b sends pause for {pause}" + (
            f" and throughput is {below} below the specification" if below else ""
        )

    own, other = reason(*here[1:]), reason(*found[1:])
    anomaly = replace(summary.anomalies[0], severity=here[0], reason=own, found_severity=found[0], found_reason=other)
    text = render_summary(HEADER, replace(summary, anomalies=(anomaly,)), 1.0)
    displayed = re.search(r"a1  pause, (.*) as found\), found in run", text)
    assert displayed is not None
    assert displayed.group(1).replace(" below the specification", "") == words
