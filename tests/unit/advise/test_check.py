"""Advice on the case studies of the paper, the shipped examples and perftest lines."""

from __future__ import annotations

import pytest

from collie.advise.check import check
from collie.advise.solver import find
from collie.app import cases, checks, sessions
from collie.campaign.choice import SearchChoice
from collie.campaign.events import Silence
from collie.content.applications import load_application
from collie.content.locate import ContentKind, available
from collie.detect.symptom import Outcome
from collie.wiring import ADAPTERS
from collie.workloads.application import Application, reached
from collie.workloads.workload import Opcode
from tests.support.applications import SPACE, advice, hits, published

APPLICATIONS = tuple(available(ContentKind.APPLICATION))


def ids(*lines: str) -> list[str]:
    application, _ = checks.application_of_perftest(ADAPTERS, lines)
    return hits(check(application, published()))


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
            if change.traffic.name == traffic.name:
                own = next(each for each in application.traffic if each.name == traffic.name)
                assert change.before == change.before_in(own), "an operator changes what the application has"
                traffic = change.applied(traffic)
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
