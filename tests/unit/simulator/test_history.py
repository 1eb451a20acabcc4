"""A mechanism that only earlier phases of a set-up bring: entries that idle queue pairs leave behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from collie.content.catalogs import load_catalog
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.detect.symptom import Symptom
from collie.errors import ContentError
from collie.ports import Measured
from collie.search.anomaly import Anomaly
from collie.simulator.audit import audit
from collie.simulator.mechanism import Mechanism
from collie.simulator.model import evaluate, evaluate_between
from collie.simulator.subsystem import SUBSYSTEM_FOLDER, SubsystemFile, Witness
from collie.simulator.testbed import SimulatedTestbed
from collie.simulator.truth import Truth
from collie.workloads.feature import Mfs
from collie.workloads.setup import SetUp
from collie.workloads.workload import Direction, Workload

FILES = Path(__file__).parents[2] / "data" / "subsystems"
HISTORY = load_subsystem(str(FILES / "idle-flows.yaml"), SubsystemFile)
SPACE = load_space("nsdi22")
TRUTH = Truth(HISTORY, SPACE)
(WITNESS,) = HISTORY.witnesses
TRIGGER = WITNESS.trigger
LARGE = TRIGGER.with_(qps=136)


def after(*before: Workload) -> SetUp:
    return SetUp(LARGE, before)


def test_it_shows_after_a_phase_with_many_queue_pairs_and_never_alone() -> None:
    assert TRUTH.verdict(TRIGGER, after(LARGE)).symptom is Symptom.PAUSE
    assert TRUTH.mechanism(TRIGGER, after(LARGE)) is Mechanism.IDLE_FLOWS
    for on in (None, after(), after(TRIGGER), after(TRIGGER.with_(qps=64))):
        assert TRUTH.verdict(TRIGGER, on).is_normal
        assert TRUTH.mechanism(TRIGGER, on) is None
    assert TRUTH.verdict(LARGE, after(LARGE)).is_normal, "no queue pair is idle"


def test_it_stays_until_the_set_up_ends() -> None:
    assert TRUTH.verdict(TRIGGER, after(TRIGGER, LARGE, TRIGGER, TRIGGER)).is_anomalous


def test_the_share_of_walked_lookups_grows_with_the_idle_queue_pairs() -> None:
    lookups = [
        evaluate(HISTORY, TRIGGER, after(TRIGGER.with_(qps=8 + idle))).costs.sink.arrival.into[0]
        for idle in (0, 32, 64, 128, 1024)
    ]
    walk = HISTORY.flow_table.walk_seconds
    assert [lookup - lookups[0] for lookup in lookups] == pytest.approx([0, walk / 16, walk / 4, walk, walk])


def test_every_packet_of_a_message_is_looked_up() -> None:
    """A message of 8 KiB has two packets of 4 KiB."""
    long = TRIGGER.with_(messages=(8192,))
    alone, behind = (evaluate(HISTORY, long, on).costs.sink.arrival.into[0] for on in (after(), after(LARGE)))
    assert behind - alone == pytest.approx(2 * HISTORY.flow_table.walk_seconds)


def test_every_flow_of_a_host_adds_its_idle_queue_pairs() -> None:
    half = TRIGGER.with_(qps=8 + 64)
    both = TRIGGER.with_(direction=Direction.BIDIRECTIONAL)
    one_way, two_ways = (evaluate(HISTORY, each, SetUp(both.with_(qps=72), (half,))) for each in (TRIGGER, both))
    assert two_ways.costs.sink.arrival.into[0] > one_way.costs.sink.arrival.into[0]
    assert one_way.costs.source.arrival.into == one_way.costs.sink.arrival.into


def test_many_phases_at_once_are_judged_as_one_by_one() -> None:
    points = [TRIGGER.with_(qps=qps, messages=(size,)) for qps in (1, 8, 100) for size in (64, 1024, 4096)]
    set_ups = [None if index % 3 == 0 else after(LARGE) for index, _ in enumerate(points)]
    severities, credited = TRUTH.severities(points, set_ups), TRUTH.mechanisms(points, set_ups)
    assert len(set(credited)) == 2
    costs = dict(zip(Mechanism, TRUTH.credits(points, set_ups).costs, strict=True))
    assert costs.pop(Mechanism.IDLE_FLOWS) == pytest.approx(severities), "the whole severity is its own"
    assert not any(cost.any() for cost in costs.values())
    for point, on, severity, mechanism in zip(points, set_ups, severities, credited, strict=True):
        verdict = TRUTH.verdict(point, on)
        assert verdict.severity == pytest.approx(severity) if verdict.is_anomalous else severity == 0
        assert mechanism is TRUTH.mechanism(point, on)


def test_the_measurement_depends_on_what_came_before() -> None:
    testbed = SimulatedTestbed(HISTORY, load_catalog("simulated"), noise=0)
    results = [testbed.measure(TRIGGER, run, on=on) for run, on in enumerate((None, after(TRIGGER), after(LARGE)))]
    pauses = [each.measurement.host("b").tx_pause_ratio for each in results if isinstance(each, Measured)]
    assert pauses == [0.0, 0.0, pytest.approx(0.306, abs=0.001)]


def test_hosts_that_differ_have_it_too() -> None:
    other = HISTORY.with_part("memory", io_cache_bytes=1 << 20)
    alike, unlike = (evaluate_between(HISTORY, b, TRIGGER, after(LARGE)) for b in (HISTORY, other))
    assert unlike.pause_ratio() == pytest.approx(alike.pause_ratio())


@pytest.mark.parametrize("name", sorted(path.stem for path in SUBSYSTEM_FOLDER.glob("*.yaml")))
def test_no_built_in_subsystem_remembers_a_phase(name: str) -> None:
    built_in, rng = load_subsystem(name, SubsystemFile), Random(3)
    for workload in [*(one.trigger for one in built_in.witnesses), *(SPACE.sample(rng) for _ in range(30))]:
        made_for = workload.with_(qps=8 * workload.qps)
        alone, on = evaluate(built_in, workload), SetUp(made_for, (made_for,))
        assert evaluate(built_in, workload, on).delivered_bps() == alone.delivered_bps()
        assert evaluate(built_in, workload, on).pause_ratio() == alone.pause_ratio()


def test_a_score_judges_an_anomaly_after_its_history() -> None:
    found = Anomaly("a1", Symptom.PAUSE, 0.3, TRIGGER, TRIGGER, Mfs(()), "", "b", 1, 30.0, 0, complete=True)
    alone, told = TRUTH.score([found]), TRUTH.score([replace(found, made_for=LARGE, history=(LARGE,))])
    assert (alone.false, alone.found, alone.missed) == (1, (), ("idle_flows",))
    assert (told.false, told.found, told.mechanisms) == (0, ("idle_flows",), {"a1": "idle_flows"})


def test_its_witness_is_checked_after_its_history_and_must_need_it() -> None:
    checked = audit(HISTORY, SPACE, 300)
    assert checked.problems == 0
    assert [check.credited for check in checked.witnesses] == [Mechanism.IDLE_FLOWS]
    built_in = load_subsystem("F", SubsystemFile)
    alone = next(one for one in built_in.witnesses if one.mechanism is Mechanism.CONTEXT_CACHE)
    needless = Witness.model_validate({**alone.model_dump(), "before": [alone.workload]})
    (check,) = audit(built_in.model_copy(update={"witnesses": (needless,)}), SPACE, 1).witnesses
    assert check.problem == "shows without the workloads before it"


def test_a_witness_whose_workloads_need_several_set_ups_is_refused(tmp_path: Path) -> None:
    text = (FILES / "idle-flows.yaml").read_text()
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(text.replace("before: [{qps: 136}]", "before: [{qps: 136, mtu: 1024}]"))
    with pytest.raises(ContentError, match=r"no set-up serves all of these workloads: .* mtu differ"):
        load_subsystem(str(wrong), SubsystemFile)
    wrong.write_text(text.replace("before: [{qps: 136}]", "before: [{qps: 136, mtus: 1024}]"))
    with pytest.raises(ContentError, match="mtus"):
        load_subsystem(str(wrong), SubsystemFile)
