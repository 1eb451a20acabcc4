"""What applications are told: the paper's case studies, perftest lines, and that the advice helps where it is tried."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from collie.advise.check import Advice, check
from collie.advise.effort import QUESTION_STEPS, Effort
from collie.advise.overlap import Known, with_margin
from collie.advise.solver import find
from collie.app import cases, checks, sessions
from collie.campaign.choice import SearchChoice
from collie.campaign.events import Silence
from collie.cli.main import run
from collie.content.applications import load_application
from collie.content.locate import ContentKind, available
from collie.content.spaces import load_space
from collie.detect.symptom import Outcome
from collie.errors import ContentError
from collie.report.terminal.advice import render_advice
from collie.wiring import ADAPTERS
from collie.workloads.application import Application, Sizes, Traffic, Values, reached
from collie.workloads.constraint import HostLimits
from collie.workloads.dimension import Ordered, Vector
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Direction, Opcode, QpType, Workload

APPLICATIONS = tuple(available(ContentKind.APPLICATION))
SPACE = load_space("nsdi22")


@cache
def published(subsystem: str | None = None) -> tuple[Known, ...]:
    return checks.known_anomalies(ADAPTERS, "nsdi22", subsystem)


@cache
def advice(name: str, subsystem: str) -> Advice:
    return check(checks.application_named(ADAPTERS, name), published(subsystem))


def hits(found: Advice) -> list[str]:
    return [hit.known.id for hit in found.hits]


def ids(*lines: str) -> list[str]:
    application, _ = checks.application_of_perftest(ADAPTERS, lines)
    return hits(check(application, published()))


# --- the case studies of the paper (section 7.3) ----------------------------------------------------------------------


def test_the_rpc_library_is_warned_of_four_and_five() -> None:
    found = advice("rpc-library", "F")

    assert sorted(hits(found)) == ["nsdi22-04", "nsdi22-05"]
    cures = {hit.known.id: {change.dimension: change.after for change in hit.changes} for hit in found.hits}
    assert cures["nsdi22-04"]["opcode"] == (Opcode.WRITE,)  # "use WRITE for batched data"
    assert cures["nsdi22-05"]["recv_wq_depth"][-1] < 1024  # type: ignore[index]  # "size the receive queue carefully"


def test_the_parameter_server_is_warned_of_nine() -> None:
    found = advice("parameter-server", "F")

    assert hits(found) == ["nsdi22-09"]
    assert found.hits[0].changes[0].dimension == "sge_count"  # the long list that sent tensors with their meta data
    assert {change.dimension for change in found.hits[0].changes} == {"sge_count", "messages"}
    assert "relaxed ordering" in found.hits[0].known.cure


# --- the examples that ship -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subsystem", ["F", "H"])
@pytest.mark.parametrize("name", APPLICATIONS)
def test_every_change_that_is_advised_is_healthy_on_the_simulator(name: str, subsystem: str) -> None:
    found = advice(name, subsystem)
    space = found.application.space

    for hit in found.hits:
        assert hit.changes or hit.pair
        choice = SearchChoice(cases.case_named(ADAPTERS, hit.known.id).choice.testbed)
        with sessions.open_session(ADAPTERS, choice, Silence()) as bench:
            sick = bench.measure(hit.overlap.example).verdict
            assert sick is not None
            assert sick.outcome is Outcome.ANOMALOUS, f"{hit.known.id} does not show in its example"
            for change in hit.changes:
                changed = find(change.traffic, space, None, hit.overlap.example)
                assert changed is not None
                verdict = bench.measure(changed).verdict
                assert verdict is not None
                assert verdict.outcome is Outcome.NORMAL, f"{hit.known.id}, {change.dimension}: {verdict.reason}"


@pytest.mark.parametrize("name", APPLICATIONS)
def test_every_example_application_can_be_changed_so_that_it_hits_nothing(name: str) -> None:
    application = load_application(name)

    remedy = check(application, published()).remedy

    assert remedy is not None
    changed = []
    for traffic in application.traffic:
        for change in remedy:
            traffic = change.applied(traffic) if change.traffic.name == traffic.name else traffic
        changed.append(traffic)
    assert not check(Application("changed", "", application.space, tuple(changed)), published()).hits


def test_a_search_inside_an_application_keeps_the_plain_traffic_of_its_space() -> None:
    application = load_application("rpc-library")
    space = reached(application)

    assert space.log10_size() < SPACE.log10_size() - 15
    assert set(space.dimensions) < set(SPACE.dimensions)
    assert space.base.mtu == 1024
    assert space.whole.base == SPACE.base
    assert space.base.opcode in (Opcode.SEND, Opcode.READ)
    assert any(traffic.holds(space.base) for traffic in application.traffic)


# --- perftest ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["ib_read_bw -m 1024 -s 4194304 -q 8 serverb"], ["nsdi22-03"]),
        (["ib_write_bw -m 1024 -s 512 -q 480 -t 16 -l 1 serverb"], ["nsdi22-08"]),
        (["ib_write_bw -s 262144 -q 8 serverb", "ib_write_bw -s 262144 -q 8 localhost"], ["nsdi22-13"]),
        (["ib_send_bw -c UD -m 2048 -s 1024 -q 32 -t 64 -r 64 serverb"], ["nsdi22-15"]),
        (["ib_write_bw -s 65536"], []),
        (["ib_send_bw -s 65536 -q 4 -b"], []),
    ],
    ids=["3", "8", "13", "15", "plain", "plain bidirectional"],
)
def test_a_pasted_perftest_line_hits_what_the_paper_says_it_does(lines: list[str], expected: list[str]) -> None:
    assert ids(*lines) == expected


# --- changes ----------------------------------------------------------------------------------------------------------


def traffic(**values: Any) -> Traffic:
    plain: dict[str, Any] = {name: (SPACE.base.get(name),) for name in SPACE.dimensions if name != "messages"}
    sizes = values.pop("messages", Sizes(range(64, 65537)))
    return Traffic("some", SPACE.base, {**plain, **values}, sizes)


def known(identifier: str, *conditions: Condition, is_coarse: bool = False) -> Known:
    return Known(identifier, identifier, Mfs(conditions), Workload(), is_coarse=is_coarse)


MANY = Condition("qps", Op.AT_LEAST, 128)
DEEP = Condition("send_wq_depth", Op.AT_LEAST, 512)


def test_a_limit_moves_no_further_than_it_has_to() -> None:
    application = Application("app", "", SPACE, (traffic(qps=range(1, 321), send_wq_depth=range(1, 1025)),))

    (hit,) = check(application, [known("a", MANY, DEEP)]).hits

    assert [(change.dimension, change.after, change.steps) for change in hit.changes] == [
        ("send_wq_depth", range(1, 257), 2),
        ("qps", range(1, 81), 4),
    ]
    assert dict(hit.overlap.reach) == {"qps": (128, 320), "send_wq_depth": (512, 1024)}


def test_what_an_application_keeps_is_not_changed() -> None:
    kind = traffic(qps=range(1, 321), send_wq_depth=range(1, 1025))

    kept = check(Application("app", "", SPACE, (kind,), frozenset({"send_wq_depth"})), [known("a", MANY, DEEP)])
    stuck = check(Application("app", "", SPACE, (kind,), frozenset({"send_wq_depth", "qps"})), [known("a", MANY, DEEP)])

    assert [change.dimension for change in kept.hits[0].changes] == ["qps"]
    assert (stuck.hits[0].changes, stuck.hits[0].pair, stuck.hits[0].changed, stuck.remedy) == ((), None, None, None)
    assert "No changes were found after which it hits none" in render_advice(stuck, 1, {})


def test_two_changes_are_advised_where_one_would_enter_another_anomaly() -> None:
    """READ is bad, SEND and WRITE are bad in chains of one: only another opcode and longer chains together help."""
    application = Application(
        "app", "", SPACE, (traffic(opcode=(Opcode.READ,), wqe_batch=(1,)),), frozenset({"qp_type"})
    )
    read = known("read", Condition("opcode", Op.EQUAL, Opcode.READ))
    single = known(
        "single",
        Condition("opcode", Op.ONE_OF, (Opcode.SEND, Opcode.WRITE)),
        Condition("wqe_batch", Op.AT_MOST, 1),
    )

    advised = check(application, [read, single])
    (hit,) = advised.hits

    assert hit.changes == ()
    text = render_advice(advised, 2, {})
    assert "  change   no single change leaves it without entering another\n" in text
    assert "  both     opcode WRITE (now READ) and wqe_batch 2 instead of 1" in text
    assert hit.pair is not None
    assert [(change.dimension, change.after) for change in hit.pair] == [
        ("opcode", (Opcode.WRITE,)),
        ("wqe_batch", (2,)),
    ]
    assert hit.changed is not None
    assert (hit.changed.opcode, hit.changed.wqe_batch) == (Opcode.WRITE, 2)


def test_a_change_leaves_everything_else_possible() -> None:
    """Another transport would lose the long messages, a shorter queue the long chains."""
    kind = traffic(qp_type=(QpType.RC,), opcode=(Opcode.SEND,), wqe_batch=range(1, 65), recv_wq_depth=range(64, 1025))
    bad = known(
        "bad",
        Condition("qp_type", Op.ONE_OF, (QpType.RC, QpType.UC)),
        Condition("recv_wq_depth", Op.AT_LEAST, 64),
    )

    (hit,) = check(Application("app", "", SPACE, (kind,)), [bad]).hits

    assert hit.changes == ()


def test_published_thresholds_are_given_a_margin_of_one_step() -> None:
    coarse = known(
        "coarse",
        Condition("qps", Op.AT_LEAST, 500),
        Condition("mtu", Op.AT_MOST, 1024),
        Condition("total_qps", Op.AT_LEAST, 160),
        Condition("max_message_bytes", Op.AT_MOST, 1024),
        Condition("opcode", Op.EQUAL, Opcode.READ),
        Condition("far_hosts", Op.AT_LEAST, 1),
        is_coarse=True,
    )

    wider = with_margin(coarse, SPACE).mfs.conditions

    assert [condition.value for condition in wider] == [480, 2048, 80, 2048, Opcode.READ, 1]
    exact = known("exact", MANY)
    assert with_margin(exact, SPACE) is exact


def test_an_anomaly_on_what_the_space_does_not_vary_has_no_steps() -> None:
    inline = known("inline", Condition("max_inline_data", Op.AT_LEAST, 64), is_coarse=True)

    assert with_margin(inline, SPACE).mfs == inline.mfs
    assert check(Application.of("one", Workload(max_inline_data=128), SPACE), [inline]).hits[0].changes == ()
    assert not check(Application.of("one", Workload(max_inline_data=32), SPACE), [inline]).hits


def test_an_empty_explanation_covers_nothing() -> None:
    assert find(traffic(), SPACE, Mfs(()), Workload()) is None


def test_a_mean_over_several_messages_is_decided_exactly() -> None:
    """7 queues of 5 messages may hold 3500 bytes: 100 on average, so 172 beside twice 64 and no more."""
    limited = replace(SPACE, limits=HostLimits(outstanding_bytes=3500))
    kind = traffic(qps=(7,), send_wq_depth=(5,), messages=Sizes(range(64, 1025), 3))

    def with_one_of(size: int) -> Workload | None:
        return find(kind, limited, known("long", Condition("max_message_bytes", Op.AT_LEAST, size)).mfs, long)

    long = Workload(messages=(1024, 1024, 1024))
    best = with_one_of(172)
    assert best is not None
    assert sorted(best.messages) == [64, 64, 172]
    assert with_one_of(173) is None
    fitting = find(kind, limited, None, long)
    assert fitting is not None
    assert sum(fitting.messages) <= 100 * len(fitting.messages)


def test_values_without_order_that_do_not_go_together_are_tried_one_by_one() -> None:
    kind = traffic(qp_type=(QpType.RC, QpType.UD), opcode=(Opcode.READ, Opcode.SEND), messages=Sizes((64, 65536)))

    found = find(kind, SPACE, None, Workload(qp_type=QpType.UD, opcode=Opcode.READ, messages=(65536,)))

    assert found is not None
    assert SPACE.allows(found)
    assert (found.qp_type, found.opcode) in {(QpType.RC, Opcode.READ), (QpType.UD, Opcode.SEND)}


def test_a_product_that_no_values_have_is_not_found() -> None:
    """3 or 4 queue pairs, once, twice or four times: 6 and 8 in all, and never 7, which no single value rules out."""
    space = load_space("soft-roce")
    kind = Traffic.of("some", space.base, space).with_values("direction", tuple(Direction))
    kind = kind.with_values("qps", (3, 4)).with_values("requesters", (1, 2))

    def with_in_all(*counts: int) -> Workload | None:
        return find(kind, space, Mfs((Condition("total_qps", Op.ONE_OF, counts),)), space.base)

    assert with_in_all(7) is None
    assert with_in_all(7, 16) is not None


@pytest.mark.parametrize(("regions", "exists"), [(43 * 47, True), (2003, False), (2 * 1009, False)])
def test_a_product_of_two_ranges_is_decided_by_halving(regions: int, exists: bool) -> None:
    kind = traffic(qps=range(2, 50), mrs_per_qp=range(2, 50))

    found = find(kind, SPACE, Mfs((Condition("total_mrs", Op.EQUAL, regions),)), Workload())

    assert (found is not None and found.qps * found.mrs_per_qp == regions) is exists
    assert (found is None) is not exists


# --- the command ------------------------------------------------------------------------------------------------------


def collie(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_check_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = collie(capsys, "check", "parameter-server", "--subsystem", "F", "--format", "json", "--measure")

    document = json.loads(out)
    assert code == 1
    assert list(document) == ["schema_version", "against", "known_anomalies", "checked"]
    (checked,) = document["checked"]
    (hit,) = checked["hits"]
    assert (checked["application"], hit["anomaly"], hit["traffic"]) == ("parameter-server", "nsdi22-09", "tensors")
    assert hit["overlap"] == {"sge_count": {"least": 3, "greatest": 4}}
    assert hit["changes"][0]["sentence"] == "sge_count at most 2 (now up to 4), just outside the published threshold"
    assert hit["changes"][0]["after"] == {"least": 1, "greatest": 2}
    assert hit["measured"]["example"]["verdict"]["outcome"] == "anomalous"
    assert hit["measured"]["changed_example"]["verdict"]["outcome"] == "normal"


def test_check_tells_people_what_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = collie(capsys, "check", "rpc-library", "storage-target", "--subsystem", "F")

    assert code == 1
    assert "can hit 2 of 13 known anomalies" in out
    assert "recv_wq_depth 1024 to 4096 (of 128 to 4096)" in out
    assert "recv_wq_depth at most 256 (now up to 4096)" in out
    assert "opcode WRITE (now READ)" in out
    assert "outside the application: raise the Ethernet MTU" in out


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
        (["rpc-library", "--hosts", "lab"], "give --measure with it"),
        (["--perftest", "ib_write_lat"], "ib_write_lat"),
        (["--perftest", "ib_write_bw -s 8388608 -q 64", "--space", "soft-roce"], "at most 128 MiB"),
    ],
)
def test_what_cannot_be_checked_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = collie(capsys, "check", *words)

    assert (code, out) == (2, "")
    assert said in err


def test_a_space_may_be_an_application(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("title: one workload\ntraffic: {only: {qps: 4}}\n")

    assert collie(capsys, "space", "show", "rpc-library")[1].startswith("space rpc-library: 10^13.")
    assert "log10_size             13." in collie(capsys, "search", "--space", "rpc-library", "--dry-run")[1]
    code, _, err = collie(capsys, "search", "--space", str(file), "--dry-run")
    assert (code, "every dimension is fixed" in err) == (2, True)


# --- a bound on the work ----------------------------------------------------------------------------------------------


def anything() -> Application:
    """An application of which the file says `any` for every dimension."""
    values: dict[str, Values] = {}
    for name, dimension in SPACE.dimensions.items():
        if isinstance(dimension, Vector):
            sizes = Sizes(range(dimension.element.low, dimension.element.high + 1), dimension.max_length)
        elif isinstance(dimension, Ordered) and not dimension.ladder_only:
            values[name] = range(dimension.low, dimension.high + 1, dimension.step)
        else:
            values[name] = dimension.candidates()
    return Application("anything", "all there is", SPACE, (Traffic("any", SPACE.base, values, sizes),))


PRODUCTS = ("total_mrs", "total_recv_wqes", "total_send_wqes", "total_qps")
SIZES = ("min_message_bytes", "max_message_bytes", "min_segment_bytes", "max_segment_bytes", "total_qps")


def lists(features: tuple[str, ...]) -> tuple[Condition, ...]:
    return tuple(
        Condition(name, Op.ONE_OF, tuple(range(1000 + place, 90_000, 1013 + place)))
        for place, name in enumerate(features)
    )


@pytest.mark.parametrize(
    "conditions",
    [
        lists(PRODUCTS),
        lists(SIZES),
        (
            Condition("min_segment_bytes", Op.EQUAL, 777),
            Condition("max_segment_bytes", Op.EQUAL, 778),
            Condition("total_mrs", Op.EQUAL, 99_991),
        ),
    ],
    ids=["lists of products", "lists of sizes", "a product that is prime"],
)
def test_what_would_take_for_ever_is_not_decided_and_says_so(conditions: tuple[Condition, ...]) -> None:
    known = Known("a1", "It is slow.", Mfs(conditions), SPACE.base)

    found = check(anything(), [known])

    assert [(each.known, each.steps) for each in found.open] == [(known, QUESTION_STEPS)]
    assert found.hits == ()
    assert found.remedy_undecided == QUESTION_STEPS
    text = render_advice(found, 1, {})
    assert "can hit none of 1 known anomaly; of 1 it is not known" in text
    assert "a1  It is slow\n  hit      not decided: more than 50,000 combinations of values; narrow the" in text


def test_many_conditions_on_one_feature_are_as_easy_as_the_tightest() -> None:
    several = tuple(Condition(name, Op.AT_LEAST, low) for low in range(1, 2000) for name in PRODUCTS[:3])
    effort = Effort(1000)

    found = find(anything().traffic[0], SPACE, Mfs(several), SPACE.base, effort)

    assert found is not None
    assert Mfs(several).covers(found)


def test_a_list_of_which_no_value_can_be_had_is_decided_without_trying_each() -> None:
    beyond = tuple(Condition(name, Op.ONE_OF, tuple(range(10**13, 10**13 + 200))) for name in PRODUCTS)

    assert find(anything().traffic[0], SPACE, Mfs(beyond), SPACE.base, Effort(1000)) is None


def test_one_effort_bounds_all_questions_together() -> None:
    known = [Known(f"a{place}", "It is slow.", Mfs(lists(PRODUCTS)), SPACE.base) for place in range(5)]

    found = check(anything(), known, Effort(2 * QUESTION_STEPS + 10))

    assert [each.steps for each in found.open] == [QUESTION_STEPS] * 2 + [2 * QUESTION_STEPS + 10] * 3


def test_hits_are_told_although_their_changes_are_not_decided() -> None:
    found = check(checks.application_named(ADAPTERS, "rpc-library"), published("F"), Effort(4000))

    undecided = [hit for hit in found.hits if hit.undecided]
    assert undecided
    assert set(hits(found)) <= set(hits(advice("rpc-library", "F")))
    assert "  change   not decided: more than" in render_advice(found, 13, {})
    assert "Changes after which it hits none of them: not decided" in render_advice(found, 13, {})


def test_an_application_that_is_not_decided_is_exit_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("collie.advise.check.CHECK_STEPS", 10)

    assert run(["check", "rpc-library", "--subsystem", "F", "--format", "json"]) == 4

    (checked,) = json.loads(capsys.readouterr().out)["checked"]
    assert checked["hits"] == []
    assert checked["remedy"] is None
    assert checked["remedy_undecided_after"] == 10
    assert {"anomaly": "nsdi22-05", "traffic": "small", "undecided_after": 10}.keys() == checked["undecided"][0].keys()
    assert {each["undecided_after"] for each in checked["undecided"]} == {10}


def test_an_application_that_is_too_wide_to_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collie.content.applications.CHECK_STEPS", 10)
    with pytest.raises(ContentError, match="goes together is not decided: more than 10 combinations of values; say"):
        load_application("rpc-library")
