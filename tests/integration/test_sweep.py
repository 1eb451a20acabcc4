"""`collie sweep` on the simulated testbed: files, resume, overlay, refusals."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collie.cli.main import run
from tests.integration.signals import heed_interrupts

QPS = ["sweep", "--x", "qps=256..8192", "--fix", "message_bytes=512", "--noise", "0"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_sweep_prints_its_points_and_cliffs_and_writes_every_kind_of_file(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = [word for kind in ("svg", "png", "html", "csv") for word in ("-o", f"qps.{kind}")]
    assert run([*QPS, *outputs]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "RC WRITE over qps on simulated subsystem F"
    assert "delivered and packets are those of all receiving hosts together" in lines
    (cliff,) = (line for line in lines if line.startswith("cliff  "))
    assert "low throughput begins" in cliff
    assert lines[-5:] == ["qps.svg", "qps.png", "qps.html", "qps.csv", "qps.json"]
    assert not any(line.endswith(" ") for line in lines)
    document = json.loads(Path("qps.json").read_text())
    with open("qps.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["qps"]) for row in rows] == [point["x"] for point in document["points"]]
    (found,) = document["cliffs"]
    assert found["x_before"] < found["x_after"] <= 1.2 * found["x_before"]
    assert Path("qps.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in Path("qps.svg").read_text()
    page = Path("qps.html").read_text()
    assert "data:image/svg+xml;base64," in page
    assert page.count("<tr>") == 1 + len(rows)


def test_the_same_sweep_draws_the_same_bytes() -> None:
    assert run([*QPS, "-o", "a.svg"]) == 0
    assert run([*QPS, "-o", "b.svg"]) == 0
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()


def test_an_interrupted_sweep_repeats_no_point(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*QPS, "-o", "a.svg"]) == 0
    whole = json.loads(Path("a.json").read_text())
    cut = {**whole, "points": whole["points"][:5]}
    Path("a.json").write_text(json.dumps(cut))
    capsys.readouterr()
    assert run([*QPS, "-o", "a.svg", "--resume", "--format", "json"]) == 0
    assert json.loads(Path("a.json").read_text())["points"] == whole["points"]
    assert json.loads(capsys.readouterr().out)["points"] == whole["points"]
    assert run([*QPS, "-o", "a.svg", "--resume"]) == 0
    assert "\n0 runs, 0 s of testbed time\n" in capsys.readouterr().out
    for halvings in ("0", "3"):  # the points of the halvings stay, as did their cliff
        assert run([*QPS, "-o", "a.svg", "--resume", "--halvings", halvings]) == 0
        assert json.loads(Path("a.json").read_text()) == whole


def interrupted_after(path: str, words: list[str]) -> str:
    """Interrupt a command once it has written a file. Return its last line of errors."""
    sweep = subprocess.Popen(
        [sys.executable, "-m", "collie", *words], stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    deadline = time.monotonic() + 60
    while not Path(path).exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    sweep.send_signal(signal.SIGINT)
    _, stderr = sweep.communicate(timeout=30)
    assert sweep.returncode == 130
    return stderr.splitlines()[-1]


def test_ctrl_c_says_how_to_go_on_if_points_are_kept() -> None:
    # The record is written after every 16 points, and the rest takes seconds.
    words = ["sweep", "--x", "qps=1..16384", "--y", "message_bytes=64..4MiB", "-o", "long.svg"]
    said = "interrupted; long.json keeps the points so far, repeat the command with --resume to go on"
    assert interrupted_after("long.json", words) == said
    assert not Path("long.svg").exists()
    assert run([*words, "--resume"]) == 0


def test_ctrl_c_while_figures_are_drawn_says_how_to_go_on() -> None:
    figures = [f"{number}.png" for number in range(9)]  # time enough for the signal
    words = ["sweep", "--x", "qps=1,2", "-o", "a.json", *(word for name in figures for word in ("-o", name))]
    said = "interrupted; a.json keeps the points so far, repeat the command with --resume to go on"
    assert interrupted_after(figures[0], words) == said
    assert not Path(figures[-1]).exists()
    assert run([*words, "--resume"]) == 0
    assert Path(figures[-1]).exists()


@pytest.mark.parametrize(
    ("axes", "names", "traffic"),
    [
        (["--x", "opcode"], "opcode", "RC"),
        (["--x", "mtu=1024,4096", "--y", "opcode=READ"], "mtu and opcode", "RC"),
        (["--x", "qp_type=RC,UC"], "qp_type", "WRITE"),
        (["--x", "opcode=WRITE,SEND", "--y", "qp_type=RC,UC"], "opcode and qp_type", "traffic"),
        (["--x", "sge_split", "--fix", "sge_count=4"], "sge_split", "RC WRITE"),
    ],
)
def test_a_title_names_no_value_of_an_axis(
    axes: list[str], names: str, traffic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", *axes, "-o", "a.svg"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{traffic} over {names} on simulated subsystem F"
    assert f">{traffic} on simulated subsystem F</text>" in Path("a.svg").read_text()


def test_two_sweeps_are_overlaid(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*QPS, "-o", "before.svg"]) == 0
    assert (
        run(["sweep", "--x", "qps=256..8192", "--y", "opcode=WRITE,READ", "-o", "now.svg", "--against", "before.json"])
        == 0
    )
    assert "before.json" in Path("now.svg").read_text()
    assert run(["sweep", "--x", "qps=512..8192", "--y", "message_bytes=64..64KiB", "-o", "map.png"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--x", "qps", "--y", "qps=1,2"], "both axes are qps"),
        (["--x", "qps", "--fix", "qps=4"], "qps is fixed and an axis"),
        (["--x", "qps", "-o", "a.pdf"], "-o a.pdf should end in one of .svg, .png, .html, .csv, .json"),
        (["--x", "qps", "--resume"], "there is no sweep-qps.json to go on with"),
        (["--x", "qps", "--against", "nothing.json"], "nothing.json cannot be read"),
        (["--x", "qps", "--against", "nothing.json", "-o", "a.csv"], "--against is for figures"),
        (["--x", "qps", "-o", "a.json", "-o", "b.json"], "a sweep has one record"),
        (["--x", "qps", "--workload", "nsdi22-01", "--perftest", "ib_write_bw"], "not both"),
        (
            ["--x", "message_bytes=64KiB", "--fix", "qp_type=UD", "--fix", "opcode=SEND"],
            "no point of this sweep can run",
        ),
        (["--x", "rail", "--space", "many-hosts"], "has no dimension 'rail' for an axis; did you mean 'rails'?"),
        (
            ["--x", "requesters=1..4", "--space", "many-hosts"],
            "requesters is 1 on this testbed and does not vary: the simulator has two hosts",
        ),
        (["--x", "qps", "--y", "rails", "--space", "many-hosts"], "rails is 1 on this testbed and does not vary"),
        (["--x", f"qps={','.join(map(str, range(1, 1502)))}", "--y", "opcode=WRITE,READ"], "more than 2000 points"),
    ],
)
def test_what_cannot_be_swept_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "other",
    [
        ["--set", "acs=disabled"],
        ["--noise", "1"],
        ["--recipe", "random"],
        ["--fix", "qp_type=RC"],
        ["--victim"],
        ["--flaky", "all=0.5"],
    ],
)
def test_points_of_other_settings_are_not_taken_over(other: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*QPS, "-o", "a.svg"]) == 0
    assert (
        run(
            [
                *[word for word in QPS if other[0] != "--noise" or word not in ("--noise", "0")],
                *other,
                "-o",
                "a.svg",
                "--resume",
            ]
        )
        == 2
    )
    assert "a.json is of another sweep" in capsys.readouterr().err


def test_a_resumed_sweep_keeps_the_points_that_it_has_not_reached_and_repeats_what_was_not_measured() -> None:
    assert run([*QPS, "-o", "a.svg", "--halvings", "0"]) == 0
    whole = json.loads(Path("a.json").read_text())
    points = whole["points"]
    failed = {**points[0], "outcome": "could not be set up", "delivered_bps": None}
    Path("a.json").write_text(json.dumps({**whole, "points": [failed, *points[1:]]}))
    assert run([*QPS, "-o", "a.svg", "--halvings", "0", "--resume"]) == 0
    assert json.loads(Path("a.json").read_text())["points"] == points


def test_the_record_is_the_json_that_is_named_and_another_sweep_must_have_the_same_axis(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*QPS, "-o", "a.csv", "-o", "b.json"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["a.csv", "b.json"]
    assert Path("b.json").exists()
    assert not Path("a.json").exists()
    assert run(["sweep", "--x", "mtu", "--against", "b.json"]) == 2
    assert "b.json is over qps and this sweep over mtu" in capsys.readouterr().err
    assert run(["sweep", "--x", "mtu=512,1024", "--y", "opcode=WRITE,READ", "-o", "c.json"]) == 0
    assert run(["sweep", "--x", "mtu", "--against", "c.json"]) == 2
    assert "c.json is over mtu and opcode and this sweep over mtu\n" in capsys.readouterr().err
    assert run(["sweep", "--x", "mtu", "--y", "qps=1,2", "--against", "c.json"]) == 2
    assert "c.json is over mtu and opcode and this sweep over mtu and qps" in capsys.readouterr().err
    assert run([*QPS, "--y", "mr_bytes=4KiB..4MiB", "--against", "b.json"]) == 2
    assert "drawn as a map, which has no room for another sweep" in capsys.readouterr().err
    for odd in ("{}", '{"schema_version": 1, "about": {}, "points": []}', "[]", "no json"):
        Path("odd.json").write_text(odd)
        assert run(["sweep", "--x", "qps", "--against", "odd.json"]) == 2
        assert "odd.json is no record of a sweep" in capsys.readouterr().err


def test_a_record_of_another_sweep_is_not_gone_on_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*QPS, "-o", "a.svg"]) == 0
    assert run(["sweep", "--x", "qps=256..4096", "-o", "a.svg", "--resume"]) == 2
    assert "a.json is of another sweep" in capsys.readouterr().err
    Path("a.json").write_text("{}")
    assert run([*QPS, "-o", "a.svg", "--resume"]) == 2
    assert "a.json is no record of a sweep" in capsys.readouterr().err


def test_another_sweep_is_replaced_only_if_its_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "--x", "qps=1,2"]) == 0
    assert run(["sweep", "--x", "qps=1,2"]) == 0, "it is the same sweep"
    kept = Path("sweep-qps.json").read_bytes(), Path("sweep-qps.svg").read_bytes()
    for more in ([], ["--resume"]):
        assert run(["sweep", "--x", "qps=1,4", *more]) == 2
        said = "sweep-qps.json is of another sweep (another x); name another file with -o"
        assert said in capsys.readouterr().err
    assert (Path("sweep-qps.json").read_bytes(), Path("sweep-qps.svg").read_bytes()) == kept
    assert run(["sweep", "--x", "qps=1,4", "-o", "sweep-qps.svg"]) == 0
    assert Path("sweep-qps.json").read_bytes() != kept[0]


def test_normal_points_are_near_their_bound_and_a_failed_set_up_is_tried_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At this seed, one set-up of the sweep fails. Bounds come from siblings that the verdicts rest on."""
    assert run(["sweep", "--x", "message_bytes=64..1MiB", "--format", "json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert {point["outcome"] for point in points} == {"normal"}
    assert all(0.8 < point["bound_ratio"] < 1.3 for point in points)
    assert run(["sweep", "--x", "qps=1..4096", "--fix", "message_bytes=512", "--format", "json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert {point["outcome"] for point in points} == {"normal", "anomalous"}


def test_an_overlay_can_reach_where_a_logarithm_ends_and_name_the_axis_otherwise() -> None:
    inline = ["sweep", "--space", "soft-roce-verbs", "--halvings", "0", "--x"]
    assert run([*inline, "max_inline_data=0,64,256", "-o", "before.json"]) == 0
    assert run([*inline, "max_inline_data=64..256", "-o", "now.svg", "--against", "before.json"]) == 0
    assert run(["sweep", "--x", "messages=1KiB,4KiB", "--halvings", "0", "-o", "sizes.json"]) == 0
    sizes = ["sweep", "--x", "message_bytes=1KiB,4KiB", "--halvings", "0", "-o", "again.svg"]
    assert run([*sizes, "--against", "sizes.json"]) == 0
