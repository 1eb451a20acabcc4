"""`collie subsystem` as a user runs it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from collie.cli.main import run
from tests.command import answer, collie

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "describe-a-subsystem.md"

MAP = ["subsystem", "map", "F", "--x", "qps", "--y", "message_bytes", "--workload", "context_cache"]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The file of the guide, as a user would keep it."""
    blocks = re.findall(r"<!-- file: my-nic.yaml -->\n```yaml\n(based_on.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    path = tmp_path / "my-nic.yaml"
    path.write_text(blocks[0])
    return path


def test_list_names_what_is_planted(tmp_path: Path) -> None:
    listed = {item["name"]: item for item in answer("subsystem", "list", cwd=tmp_path)["subsystems"]}
    assert {"F", "H"} <= set(listed)
    assert {"translation_cache", "context_cache", "loopback_incast"} <= set(listed["F"]["mechanisms"])
    text = collie("subsystem", "list", cwd=tmp_path).stdout
    assert "ConnectX-6 Dx" in text
    assert f"{len(listed['F']['mechanisms'])} planted" in text


@pytest.mark.parametrize("words", [("list",), ("show", "F")])
def test_a_pipe_gets_no_trailing_blanks(words: tuple[str, ...], tmp_path: Path) -> None:
    lines = collie("subsystem", *words, cwd=tmp_path).stdout.splitlines()
    assert lines == [line.rstrip() for line in lines]


def test_an_overlay_adds_a_subsystem_and_its_faults_hide_no_other(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "content" / "subsystems"
    folder.mkdir(parents=True)
    own.rename(folder / "acme-n1.yaml")
    monkeypatch.setenv("COLLIE_CONTENT", str(tmp_path / "content"))
    names = [item["name"] for item in answer("subsystem", "list", cwd=tmp_path)["subsystems"]]
    assert "acme-n1" in names
    measured = answer("measure", "nsdi22-08", "--subsystem", "acme-n1", cwd=tmp_path)
    assert measured["verdict"]["outcome"] == "normal"
    (folder / "broken.yaml").write_text("name: broken\n")
    listed = collie("subsystem", "list", cwd=tmp_path, status=2)
    assert "acme-n1" in listed.stdout
    assert "broken.yaml" in listed.stderr


def test_show_gives_every_quantity_in_si_units(tmp_path: Path) -> None:
    displayed = answer("subsystem", "show", cwd=tmp_path)
    assert displayed["name"] == "F"
    cache = displayed["parts"]["translation_cache"]["quantities"]
    assert cache["page_bytes"]["value"] == 2 << 20
    assert cache["miss_seconds"]["value"] == pytest.approx(0.83e-6)
    assert all(
        quantity["description"] for part in displayed["parts"].values() for quantity in part["quantities"].values()
    )
    assert all(part["description"] for part in displayed["parts"].values())
    assert displayed["settings"]["firmware"]["cures"] == ["acknowledgement_blocking"]
    assert displayed["witnesses"][0]["workload"]["qp_type"]


def test_show_speaks_to_people_and_applies_settings(tmp_path: Path) -> None:
    text = collie("subsystem", "show", "F", "--set", "minimum_mtu=4096", cwd=tmp_path).stdout
    for words in (
        "200 Gbit/s",
        "0.83 us",
        "0.1068 us",
        "2 MiB",
        "26.9 M/s",
        "minimum_mtu = 4096",
        "(setting minimum_mtu)",
    ):
        assert words in text
    displayed = answer("subsystem", "show", "F", "--set", "minimum_mtu=4096", cwd=tmp_path)
    assert displayed["parts"]["wire"]["quantities"]["minimum_mtu"] == {
        "value": 4096,
        "setting": "minimum_mtu",
        "description": displayed["parts"]["wire"]["quantities"]["minimum_mtu"]["description"],
    }


def test_the_claims_of_every_built_in_subsystem_hold(tmp_path: Path) -> None:
    names = [item["name"] for item in answer("subsystem", "list", cwd=tmp_path)["subsystems"]]
    checked = answer("subsystem", "validate", *names, "--points", "1000", cwd=tmp_path)
    assert checked["valid"]
    assert [item["subsystem"] for item in checked["subsystems"]] == names


def test_the_guides_example_is_valid_and_can_be_used(own: Path, tmp_path: Path) -> None:
    text = collie("subsystem", "validate", own.name, cwd=tmp_path).stdout
    assert "context_pages=large cures context_cache" in text
    assert "read_slow_path" not in text, "without its witness the inherited cure is no claim"
    assert text.splitlines()[-1].strip() in GUIDE.read_text()
    found = answer("reproduce", "nsdi22-08", "--subsystem", own.name, "--repeat", "3", cwd=tmp_path, status=1)
    assert found["reproduced"] == "no"
    scored = answer(
        "search", "--subsystem", own.name, "--budget", "5runs", "--campaign", "one", "--score", cwd=tmp_path
    )
    assert "read_slow_path" not in scored["score"]["planted"]
    assert "context_cache" in scored["score"]["planted"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("qps: 1200", "qps: 8", "context_cache             is normal"),
        ("{qps: 1200, mtu: 1024,", "{qps: 24, mrs_per_qp: 1024, mtu: 1024,", "is credited to translation_cache"),
        ("qps: 1200", "qps: 1200, wqe_batch: 32", "cannot run: wqe_batch 32"),
        ("cures: [context_cache]", "cures: [context_cache, read_slow_path]", "read_slow_path: it has no witness: take"),
        ("entries: 65536", "entries: 1000", "stays anomalous with every option"),
    ],
)
def test_a_wrong_claim_is_named_and_exits_1(own: Path, tmp_path: Path, before: str, after: str, message: str) -> None:
    own.write_text(own.read_text().replace(before, after))
    assert message in collie("subsystem", "validate", own.name, "F", cwd=tmp_path, status=1).stdout
    assert not answer("subsystem", "validate", own.name, cwd=tmp_path, status=1)["valid"]


def test_every_broken_file_is_explained_line_by_line(own: Path, tmp_path: Path) -> None:
    text = own.read_text().replace("entries: 1000", "entires: 1000").replace("1us", "1 furlong")
    own.write_text(text)
    (tmp_path / "other.yaml").write_text("based_on: F\nwithout: [nothing]\n")
    line = next(number for number, words in enumerate(text.splitlines(), start=1) if "entires" in words)
    done = collie("subsystem", "validate", own.name, "other.yaml", "F", cwd=tmp_path, status=2)
    assert f"my-nic.yaml:{line}: unknown key 'entires'; did you mean 'entries'?" in done.stderr
    assert f"my-nic.yaml:{line}: context_cache.miss_seconds" in done.stderr
    assert "other.yaml:2: without" in done.stderr
    assert done.stdout == ""


def test_an_unplanned_mechanism_comes_with_a_witness_to_paste(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("based_on: F-healthy\nname: mine\ntitle: mine\nloopback: {rate_limited: false}\n")
    words = ["subsystem", "validate", path.name, "--points", "500"]
    text = collie(*words, cwd=tmp_path, status=1).stdout
    assert "wrong  loopback_incast has no witness, but costs" in text
    entry = re.search(r"^    - mechanism: .*\n      title: .*\n      workload: .*\n", text, flags=re.MULTILINE)
    assert entry
    (checked,) = answer(*words, cwd=tmp_path, status=1)["subsystems"]
    (unplanned,) = checked["unplanned"]
    assert (unplanned["mechanism"], unplanned["planted"]) == ("loopback_incast", False)
    assert unplanned["example"]["loopback"]
    assert "survey" not in checked
    path.write_text(f"{path.read_text()}witnesses:\n{entry[0]}")
    mended = collie(*words, cwd=tmp_path).stdout
    assert "all claims hold: 1 witness, 0 cures, 500 random workloads" in mended


def test_a_survey_lists_what_shows_and_how_often(tmp_path: Path) -> None:
    words = ["subsystem", "validate", "F", "--survey", "--points", "500"]
    (checked,) = answer(*words, cwd=tmp_path)["subsystems"]
    survey = checked["survey"]
    assert survey["points"] == 500
    assert sum(shown["credited"] for shown in survey["mechanisms"]) == pytest.approx(survey["anomalous"])
    text = collie(*words, cwd=tmp_path).stdout
    for shown in survey["mechanisms"]:
        assert re.search(
            rf"{shown['mechanism']} +shows at .*, costs most at .*, median severity .*, has a witness", text
        )
    assert text.count("for example {") == sum(shown["example"] is not None for shown in survey["mechanisms"])
    assert "for example" not in collie(*words[:3], *words[4:], cwd=tmp_path).stdout


def test_sick_plain_traffic_is_noted_and_a_slow_port_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    words = ["subsystem", "validate", path.name, "--points", "100"]
    slow = "requester_slow_packets_per_second: 100000"
    path.write_text(f"based_on: F\nname: mine\ntitle: mine\nreads: {{{slow}}}\n")
    text = collie(*words, cwd=tmp_path, status=1).stdout
    assert re.search(
        r"note   plain RC READ delivers \d+% of the 196.1 Gbit/s .* Limited by: receive engine of host a", text
    )
    assert "wrong  plain" not in text
    path.write_text("based_on: F-healthy\nname: mine\ntitle: mine\nengine: {placement_bps: 40Gbit}\n")
    text = collie(*words, cwd=tmp_path, status=1).stdout
    assert text.count("wrong  plain") == 1
    assert "wrong claims: 1 in 0 witnesses" in text
    (checked,) = answer(*words, cwd=tmp_path, status=1)["subsystems"]
    assert sum(check["problem"] is not None for check in checked["plain"]) == 1


def test_what_a_space_does_not_hold_is_skipped_and_not_scored(tmp_path: Path) -> None:
    words = ["subsystem", "validate", "F", "--space", "soft-roce", "--points", "100"]
    text = collie(*words, cwd=tmp_path).stdout
    assert re.search(r"skip   context_cache +not in space soft-roce: qps 480 is out of range", text)
    assert "skip   firmware cures acknowledgement_blocking: its witness is not in space soft-roce" in text
    assert re.search(r"all claims hold: \d+ witness.*; not in space soft-roce: \d+ witnesses, 5 cures", text)
    (checked,) = answer(*words, cwd=tmp_path)["subsystems"]
    outside = {check["mechanism"] for check in checked["witnesses"] if check["outside"]}
    assert {"context_cache", "peer_to_peer_redirect"} <= outside
    searched = ["search", "--space", "soft-roce", "--budget", "3runs", "--campaign", "one", "--score"]
    score = answer(*searched, cwd=tmp_path)["score"]
    assert "peer_to_peer_redirect" in score["absent"]
    assert not {*score["planted"], *score["missed"]}.intersection(score["absent"])
    assert "peer_to_peer_redirect" in {*score["planted"], *score["absent"]}


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("mapped")
    return folder, answer(*MAP, cwd=folder)


def test_a_map_has_a_cliff_where_the_context_cache_is_full(mapped: tuple[Path, dict[str, Any]]) -> None:
    _, result = mapped
    qps, sizes = result["x"]["values"], result["y"]["values"]
    assert qps == sorted(set(qps))
    row = sizes.index(512)
    few, many = qps.index(320), qps.index(768)
    assert result["severity"][row][few] == 0
    assert result["severity"][row][many] > 0.2
    assert result["mechanism"][row][few] is None
    assert result["mechanism"][row][many] == "context_cache"
    witness = result["severity"][row][qps.index(480)]
    assert result["base"]["severity"] == pytest.approx(witness, abs=1e-6)
    assert result["followed"] == ["mr_bytes"]
    assert len(result["severity"]) == len(sizes)
    assert {len(line) for line in result["severity"]} == {len(qps)}


def test_a_map_is_an_svg_whose_text_is_text(mapped: tuple[Path, dict[str, Any]]) -> None:
    folder, result = mapped
    assert result["path"] == "map-F-qps-message_bytes.svg"
    picture = (folder / result["path"]).read_text()
    for words in ("F: severity over qps and message_bytes", "context_cache", "256 KiB", "10,000", "anomalous begins"):
        assert words in picture
    assert 5_000 < len(picture) < 500_000


def test_a_map_goes_where_it_is_told_and_settings_change_it(
    mapped: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    words = ["subsystem", "map", "--x", "opcode", "--y", "messages", "--workload", "nsdi22-09"]
    done = collie(*words, "--output", "map.png", cwd=tmp_path)
    assert done.stdout == "map.png\n"
    assert "strict_ordering" in done.stderr
    picture = (tmp_path / "map.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000
    cured = answer(*words, "--set", "relaxed_ordering=forced", "-o", "cured.svg", cwd=tmp_path)
    assert cured["settings"] == {"relaxed_ordering": "forced"}
    assert "strict_ordering" not in {name for row in cured["mechanism"] for name in row}
    assert "relaxed_ordering forced" in (tmp_path / "cured.svg").read_text()


def test_what_cannot_run_is_blank_and_queues_make_room(tmp_path: Path) -> None:
    words = ["subsystem", "map", "--x", "wqe_batch", "--y", "recv_wq_depth", "--workload", "datagram_prefetch"]
    result = answer(*words, "--fix", "send_wq_depth=64", cwd=tmp_path)
    batch, depth = result["x"]["values"].index(32), result["y"]["values"].index(16)
    assert result["severity"][depth][batch] is None, "the receive queue is an axis, so it does not grow"
    last = [row[-1] for row in result["severity"]]
    assert last == [None] * len(last), "the send queue is fixed, so it does not grow"
    free = answer("subsystem", "map", "--x", "wqe_batch", "--y", "qps", "--fix", "send_wq_depth=16", cwd=tmp_path)
    assert None in free["severity"][0]
    deep = answer("subsystem", "map", "--x", "wqe_batch", "--y", "qps", "--workload", "nsdi22-08", cwd=tmp_path)
    assert None not in deep["severity"][0]
    assert "send_wq_depth" in deep["followed"]


@pytest.mark.parametrize(
    ("words", "displayed"),
    [
        (["F-healthy", "--x", "qps", "--y", "mtu"], "nothing is anomalous here"),
        (["--x", "sge_split", "--y", "message_bytes", "--workload", "strict_ordering"], "[128 B, 64 KiB]"),
        (["--x", "qps", "--y", "wqe_batch", "--workload", "acknowledgement_blocking"], "acknowledgement_"),
        (["--x", "qps", "--y", "messages", "--workload", "nsdi22-10"], "severity over qps and message_bytes"),
        (["--x", "qps", "--y", "rnr_retry", "--space", "soft-roce"], "base workload, normal"),
        (["--x", "qps", "--y", "mtu", "--workload", "nsdi22-08", "--fix", "send_wq_depth=128"], "nsdi22-08, changed"),
        (["H", "--x", "mrs_per_qp", "--y", "qps", "--workload", "transmit_staging"], "no valid workload"),
    ],
)
def test_every_kind_of_map_is_drawn_without_a_warning(
    words: list[str], displayed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["subsystem", "map", *words, "-o", "map.svg"]) == 0
    assert displayed in (tmp_path / "map.svg").read_text().replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "Z"], "no subsystem has this name"),
        (["show", "--set", "warp=9"], "no setting 'warp'; it has firmware"),
        (["show", "--set", "firmware=9"], "'9' is no option; one of 22.28, 22.31"),
        (["validate"], "NAME|FILE"),
        (["validate", "F", "--space", "nsdi23"], "did you mean 'nsdi22'"),
        (["map", "--x", "qqs", "--y", "qps"], "no dimension 'qqs'"),
        (["map", "--x", "qps", "--y", "qps"], "both axes are qps"),
        (["map", "--x", "messages", "--y", "message_bytes"], "both axes are message_bytes"),
        (["map", "--x", "qps", "--y", "opcode"], "--y opcode has no order"),
        (["map", "--x", "qps"], "--y"),
        (["map", "--x", "qps", "--y", "mtu", "--workload", "nope"], "no mechanism that subsystem F has a witness of"),
        (["map", "--x", "qps", "--y", "mtu", "--workload", "absent.yaml"], "absent.yaml"),
        (["map", "--x", "qps", "--y", "mtu", "--fix", "qps=8"], "qps is fixed and an axis"),
        (["map", "--x", "qps", "--y", "mtu", "--fix", "mr_bytes=1GiB"], "out of range"),
        (["map", "--x", "qps", "--y", "mtu", "--output", "map.gif"], "should end in .svg or .png"),
        (["map", "--x", "qps", "--y", "mtu", "--output", "absent/map.svg"], "there is no directory absent"),
        (["map", "H", "--x", "qps", "--y", "mtu", "--fix", "memory=gpu"], "has no GPU"),
    ],
)
def test_bad_usage_is_one_message(words: list[str], message: str, tmp_path: Path) -> None:
    done = collie("subsystem", *words, cwd=tmp_path, status=2)
    assert message in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []
