"""`collie check`: answers for people and programs, and exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from collie.advise.effort import QUESTION_STEPS
from collie.cli.main import run
from collie.content.applications import load_application
from collie.content.spaces import load_space
from collie.errors import ContentError
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER
from collie.workloads.feature import Condition, Mfs, Op


def collie(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_check_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = collie(capsys, "check", "parameter-server", "--subsystem", "F", "--format", "json", "--measure")

    document = json.loads(out)
    assert code == 1
    assert list(document) == ["schema_version", "against", "known_anomalies", "not_compared", "checked"]
    (checked,) = document["checked"]
    (hit,) = checked["hits"]
    assert (checked["application"], hit["anomaly"], hit["traffic"]) == ("parameter-server", "nsdi22-09", "tensors")
    assert hit["overlap"] == {"sge_count": {"least": 3, "greatest": 4}}
    assert hit["changes"][0]["sentence"] == "sge_count at most 2 (now up to 4), just outside the published threshold"
    assert hit["changes"][0]["after"] == {"least": 1, "greatest": 2}
    assert hit["measured"]["example"]["verdict"]["outcome"] == "anomalous"
    assert hit["measured"]["changed_example"]["verdict"]["outcome"] == "normal"


def test_check_prints_the_changes_to_make(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = collie(capsys, "check", "rpc-library", "storage-target", "--subsystem", "F")

    assert code == 1
    assert "can hit 2 of 13 known anomalies" in out
    assert "recv_wq_depth 1024 to 4096 (of 128 to 4096)" in out
    assert "recv_wq_depth at most 256 (now up to 4096)" in out
    assert "opcode WRITE (now READ)" in out
    assert "outside the application: raise the Ethernet MTU" in out


def test_every_condition_that_a_workload_meets_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    met = tmp_path / "met.yaml"
    met.write_text("opcode: READ\nqps: 8\nmtu: 1024\nmessages: [64KiB]\n")
    _, out, _ = collie(capsys, "check", str(met), "--subsystem", "F")
    assert "  needs    qp_type == RC and opcode == READ and mtu <= 1024 and min_message_bytes >= 16384\n" in out
    assert "  where " not in out


def test_a_subsystem_without_published_anomalies_is_checked_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert "can hit 3 of 18 known anomalies" in collie(capsys, "check", "rpc-library", "--subsystem", "G")[1]
    said = " ".join(collie(capsys, "check", "--help")[1].split())
    assert "--subsystem only the anomalies published for it count. If none is published for it, all count." in said


def test_check_says_what_its_cheapest_change_minimises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = collie(capsys, "check", "rpc-library", "--subsystem", "F")
    assert out.splitlines()[2] == "the cheapest change moves the limits of the application by the fewest steps"
    assert "  change   wqe_batch at most 16 (now up to 64); gives up 29% of its values\n" in out
    assert "  or       opcode WRITE (now SEND)\n" in out, "it gives up all, which the change itself says"

    calm = tmp_path / "calm.yaml"
    calm.write_text("messages: [64KiB]\n")
    assert "cheapest" not in collie(capsys, "check", str(calm))[1]


def test_sizes_of_messages_have_their_unit(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = collie(capsys, "check", "--perftest", "ib_read_bw -m 1024 -s 4194304 -q 8")

    assert "messages [4 KiB] instead of [4 MiB]" in out


def test_an_application_that_hits_nothing_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "calm.yaml"
    file.write_text("title: plain writes\ntraffic: {bulk: {qps: {range: [1, 64]}, mr_bytes: 4MiB, messages: any}}\n")
    single = tmp_path / "one.yaml"
    single.write_text("opcode: READ\nmessages: [64KiB]\n")

    code, out, err = collie(capsys, "check", str(file), str(single))

    assert (code, err) == (0, "")
    assert out.count("can hit none of 18 known anomalies") == 2


def test_a_hit_whose_example_runs_normally_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    cured = ["--subsystem", "F-cured", "--measure"]

    assert collie(capsys, "check", "parameter-server", "--subsystem", "F")[0] == 1
    assert collie(capsys, "check", "parameter-server", *cured)[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name an application or a workload"),
        (["no-such"], "no application has this name; known: all-reduce"),
        (["rpc-library", "--against", "nsdi99"], "known: nsdi22"),
        (["rpc-library", "--subsystem", "Z"], "no subsystem has this name"),
        (["rpc-library", "--space", "soft-roce"], "qps 128 is out of range; 1 to 64"),
        (["rpc-library", "--hosts", "lab"], "--hosts: only for the runs of examples; give --measure with it"),
        (
            ["rpc-library", "--set", "acs=disabled", "--seed", "1", "--noise", "0", "--max-rate", "1Gbit/s"],
            "--seed, --max-rate, --set, --noise: only for the runs of examples; give --measure with it",
        ),
        (["rpc-library", "--flaky", "all=0.5", "--shared-port"], "--shared-port, --flaky: only for the runs"),
        (["--perftest", "ib_write_lat"], "ib_write_lat"),
        (["--perftest", "ib_write_bw -s 8388608 -q 64", "--space", "soft-roce"], "at most 128 MiB"),
    ],
)
def test_what_cannot_be_checked_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = collie(capsys, "check", *words)

    assert (code, out) == (2, "")
    assert said in err


def test_a_setting_that_an_example_cannot_have_is_refused_with_its_subsystem(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = collie(capsys, "check", "rpc-library", "--measure", "--set", "firmware=22.31")

    assert (code, out) == (2, "")
    assert "subsystem H, setting firmware: '22.31' is no option; one of 216.2" in err


def test_a_space_may_be_an_application(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("title: one workload\ntraffic: {only: {qps: 4}}\n")

    assert collie(capsys, "space", "show", "rpc-library")[1].startswith("space rpc-library: 10^13.")
    assert (
        "space    rpc-library: 7 dimensions, 10^13."
        in collie(capsys, "search", "--space", "rpc-library", "--dry-run")[1]
    )
    shown = collie(capsys, "space", "show", "offered-load")[1]
    assert "offered_bps     1 Gbit/s to 160 Gbit/s (ladder of 11); plain 10 Gbit/s" in shown
    assert "messages        1 to 6 values of 64 B to 4 MiB (ladder of 17); plain [64 KiB]" in shown
    code, _, err = collie(capsys, "search", "--space", str(file), "--dry-run")
    assert (code, "every dimension is fixed" in err) == (2, True)


def test_an_application_that_is_not_decided_is_exit_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No product of two ranges is a prime, and a NIC could have so many values that all cannot be tried."""
    space = load_space("nsdi22")
    application = tmp_path / "anything.yaml"
    application.write_text(
        "title: all there is\ntraffic:\n  wide:\n" + "".join(f"    {name}: any\n" for name in space.dimensions)
    )
    prime = Mfs((
        Condition("min_segment_bytes", Op.EQUAL, 777),
        Condition("max_segment_bytes", Op.EQUAL, 778),
        Condition("total_mrs", Op.EQUAL, 99_991),
    ))  # fmt: skip
    with SqliteStore.create(tmp_path / "campaign", HEADER) as store:
        store.add_anomaly(replace(ANOMALY, mfs=prime))

    code, out, _ = collie(
        capsys, "check", str(application), "--against", str(tmp_path / "campaign"), "--format", "json"
    )

    assert code == 4
    (checked,) = json.loads(out)["checked"]
    assert checked["hits"] == []
    assert checked["remedy"] is None
    assert checked["remedy_undecided_after"] == QUESTION_STEPS
    (undecided,) = checked["undecided"]
    assert undecided.keys() == {"anomaly", "traffic", "undecided_after"}
    assert (undecided["traffic"], undecided["undecided_after"]) == ("wide", QUESTION_STEPS)


def test_what_could_not_be_compared_is_no_clean_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calm = tmp_path / "calm.yaml"
    calm.write_text("title: plain writes\ntraffic: {bulk: {qps: {range: [1, 64]}, messages: [64KiB]}}\n")
    campaign = str(tmp_path / "campaign")
    with SqliteStore.create(Path(campaign), HEADER) as store:
        store.add_anomaly(replace(ANOMALY, id="a1", mfs=Mfs((Condition("loopback", Op.EQUAL, True),))))
        store.add_anomaly(replace(ANOMALY, id="a2", mfs=Mfs(())))
        store.add_anomaly(replace(ANOMALY, id="a3", mfs=Mfs(()), same_as="a2"))

    code, out, err = collie(capsys, "check", str(calm), "--against", campaign)
    assert (code, err) == (4, "")
    said = f"can hit none of 1 anomaly with conditions; 1 without conditions was not compared: {campaign}/a2"
    assert said in out.splitlines()
    code, out, _ = collie(capsys, "check", str(calm), "--against", campaign, "--format", "json")
    document = json.loads(out)
    assert (code, document["known_anomalies"], document["not_compared"]) == (4, 1, [f"{campaign}/a2"])

    calm.write_text("title: all\ntraffic: {bulk: {loopback: {values: [false, true]}}}\n")
    assert collie(capsys, "check", str(calm), "--against", campaign)[0] == 1


def test_an_application_that_is_too_wide_to_be_read_is_refused() -> None:
    with pytest.raises(ContentError, match="goes together is not decided: more than 10 combinations of values; say"):
        load_application("rpc-library", steps=10)


def test_an_anomaly_of_a_campaign_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["search", "--recipe", "random", "--budget", "30m", "--seed", "1", "--campaign", "c"]) == 0
    capsys.readouterr()
    code, said, _ = collie(capsys, "check", "last/a1", "--against", "c")
    assert code == 4, "this recipe explains nothing"
    assert said.startswith("c/a1: ")
    assert "not compared: c/a1, c/a2, c/a3" in said
