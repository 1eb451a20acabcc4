"""What a simulated run looks like: seeded noise, failed set-ups, transients, virtual time."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from collie.content.catalogs import load_catalog
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.counters.series import is_stable
from collie.detect.bounds import Bound
from collie.detect.judge import judge
from collie.detect.measurement import Latency, Measurement
from collie.detect.thresholds import Thresholds
from collie.errors import ContentError, UsageError
from collie.ports import Measured, RunResult, SetupFailed, Unsupported
from collie.simulator.mechanism import Mechanism
from collie.simulator.noise import FAILURES
from collie.simulator.readings import COUNTERS, FLEET_COUNTERS
from collie.simulator.subsystem import SUBSYSTEM_FOLDER, SubsystemFile
from collie.simulator.testbed import PHASE_SECONDS, SimulatedTestbed, elapsed_seconds
from collie.workloads.setup import SetUp
from collie.workloads.workload import Connection, Direction, Memory, Opcode, QpType, Workload

F = load_subsystem("F", SubsystemFile)
CATALOG = load_catalog("simulated")
SPACE = load_space("nsdi22")
PLAIN = SPACE.base
TRIGGERS = {witness.mechanism: witness.trigger for witness in F.witnesses}
RUNS = 3000


def simulated(seed: int = 1, noise: float = 1.0) -> SimulatedTestbed:
    return SimulatedTestbed(F, CATALOG, seed=seed, noise=noise)


def measured(result: RunResult) -> Measurement:
    assert isinstance(result, Measured)
    return result.measurement


@pytest.fixture(scope="module")
def many() -> list[RunResult]:
    noisy = simulated()
    return [noisy.measure(PLAIN, run) for run in range(RUNS)]


def test_a_run_depends_on_seed_number_and_workload_alone() -> None:
    first, second = simulated(), simulated()
    second.measure(PLAIN.with_(qps=1), 5)
    assert [first.measure(PLAIN, run) for run in range(20)] == [second.measure(PLAIN, run) for run in range(20)]
    assert measured(first.measure(PLAIN, 7)) != measured(first.measure(PLAIN, 8))
    assert measured(first.measure(PLAIN, 7)) != measured(simulated(seed=2).measure(PLAIN, 7))


def test_without_noise_every_run_is_the_same() -> None:
    silent = simulated(noise=0)
    runs = [silent.measure(PLAIN, run) for run in range(500)]
    assert all(run == runs[0] for run in runs)
    measurement = measured(runs[0])
    assert measurement.stable
    assert [host.tx_pause_ratio for host in measurement.hosts] == [0, 0]


def test_one_run_in_a_hundred_cannot_be_set_up(many: list[RunResult]) -> None:
    failed = [result for result in many if isinstance(result, SetupFailed)]
    assert 0.005 * RUNS < len(failed) < 0.02 * RUNS
    # Whoever prints the detail knows the run.
    assert {(result.cause, result.detail) for result in failed} == set(FAILURES)
    assert all(0 < result.elapsed_seconds < elapsed_seconds(PLAIN) for result in failed)


def test_a_window_is_unstable_now_and_then_and_its_series_shows_it(many: list[RunResult]) -> None:
    runs = [result.measurement for result in many if isinstance(result, Measured)]
    disturbed = [run for run in runs if not run.stable]
    assert 0.003 * RUNS < len(disturbed) < 0.02 * RUNS

    def level(run: Measurement) -> bool:
        values = [sample.values["delivered_bps"] or 0.0 for sample in run.series if sample.host == "b"]
        return is_stable(values[-5:], 0.05)

    assert all(level(run) for run in runs if run.stable)
    assert sum(level(run) for run in disturbed) < len(disturbed) / 2


def test_a_plain_workload_is_hardly_ever_suspected(many: list[RunResult]) -> None:
    bound = Bound(195e9, 6e6, "plain sibling")
    verdicts = [
        judge(PLAIN, result.measurement, bound, Thresholds()) for result in many if isinstance(result, Measured)
    ]
    assert sum(verdict.is_anomalous for verdict in verdicts) < 0.01 * RUNS


def test_noise_leaves_the_mean_where_it_is(many: list[RunResult]) -> None:
    quiet = measured(simulated(noise=0).measure(PLAIN, 1)).host("b").delivered_bps or 0.0
    values = [result.measurement.host("b").delivered_bps or 0.0 for result in many if isinstance(result, Measured)]
    assert sum(values) / len(values) == pytest.approx(quiet, rel=0.005)
    assert min(values) < 0.98 * quiet


def test_connection_set_up_pauses_before_the_window(many: list[RunResult]) -> None:
    runs = [result.measurement for result in many if isinstance(result, Measured) and result.measurement.stable]
    for run in runs[:100]:
        samples = [sample for sample in run.series if sample.host == "b"]
        assert len(samples) == 8
        assert [sample.seconds for sample in samples] == [1, 2, 3, 4, 5, 6, 7, 8]
        assert (samples[0].values["delivered_bps"] or 0.0) < 0.5 * (samples[-1].values["delivered_bps"] or 0.0)
        assert max(sample.values["tx_pause_ratio"] or 0.0 for sample in samples[3:]) < 0.001
    assert max(run.series[1].values["tx_pause_ratio"] or 0.0 for run in runs[:100]) > 0.01


def test_pause_that_one_host_sends_the_other_receives() -> None:
    trigger = next(witness.trigger for witness in F.witnesses if witness.mechanism is Mechanism.DATAGRAM_PREFETCH)
    a, b = measured(simulated().measure(trigger, 3)).hosts
    assert b.tx_pause_ratio == a.rx_pause_ratio
    assert a.tx_pause_ratio == b.rx_pause_ratio
    assert b.counters["tx_pause_duration"] == pytest.approx(1e6 * (b.tx_pause_ratio or 0.0))


def test_counters_are_those_of_the_catalog_in_both_places() -> None:
    assert {*COUNTERS, *FLEET_COUNTERS} == {counter.name for counter in CATALOG.counters}
    run = measured(simulated().measure(PLAIN, 1))
    assert tuple(run.host("a").counters) == COUNTERS
    assert set(run.series[0].values) == {*COUNTERS, "delivered_bps", "tx_pause_ratio"}


def test_each_flow_has_its_latency() -> None:
    both = PLAIN.with_(direction=Direction.BIDIRECTIONAL, loopback=True, offered_bps=10**9)
    run = measured(simulated().measure(both, 1))
    assert set(run.latency) == {"a-b", "b-a", "b-b"}
    assert all(1e-6 < (latency.median_seconds or 0.0) < 10e-6 for latency in run.latency.values())
    read = measured(simulated().measure(PLAIN.with_(opcode=Opcode.READ, loopback=True), 1))
    assert set(read.latency) == {"a-b", "a-a"}


def test_latency_and_throughput_have_the_same_noise() -> None:
    for run in range(5):
        noisy = measured(simulated().measure(PLAIN, run))
        messages = (noisy.host("b").delivered_bps or 0.0) / 8 / PLAIN.mean_message_bytes
        assert (noisy.latency["a-b"].median_seconds or 0.0) * messages == pytest.approx(PLAIN.qps * PLAIN.send_wq_depth)


def test_a_flow_that_starves_has_no_latency() -> None:
    trigger = next(witness.trigger for witness in F.witnesses if witness.mechanism is Mechanism.LOOPBACK_INCAST)
    starved = trigger.with_(loopback=True, messages=(64,), qps=1)
    state = SPACE.sample(Random(432))
    assert measured(simulated(noise=0).measure(state, 1)).latency["b-b"] == Latency()
    assert measured(simulated(noise=0).measure(starved, 1)).latency["b-b"] != Latency()


def test_what_waits_for_longer_than_the_window_has_no_latency() -> None:
    long = PLAIN.with_(messages=(4 << 20,), mr_bytes=4 << 20, send_wq_depth=16384)
    run = measured(simulated(noise=0).measure(long, 1))
    drained = 8 * long.bytes_outstanding / (run.host("b").delivered_bps or 0.0)
    assert drained > run.window_seconds
    assert run.latency["a-b"] == Latency()
    shorter = measured(simulated(noise=0).measure(long.with_(send_wq_depth=2048), 1))
    assert 0.0 < (shorter.latency["a-b"].median_seconds or 0.0) <= shorter.window_seconds


def test_a_stopped_run_has_no_latency() -> None:
    stopped = measured(simulated().measure(PLAIN, 1, lambda sample: "enough" if sample.seconds > 2 else None))
    assert stopped.stopped == "enough"
    assert not stopped.latency


def test_a_run_takes_twenty_to_sixty_seconds() -> None:
    assert elapsed_seconds(Workload(qps=1)) == 20
    assert elapsed_seconds(Workload(qps=20_000, mrs_per_qp=10)) == pytest.approx(60)
    assert 20 < elapsed_seconds(PLAIN) < elapsed_seconds(PLAIN.with_(qps=80)) < 60


def test_the_first_phase_takes_the_time_of_the_set_up_and_each_further_one_its_window() -> None:
    silent, large = simulated(noise=0), PLAIN.with_(qps=80, mrs_per_qp=64)
    first, second = silent.measure(PLAIN, 1, on=SetUp(large)), silent.measure(PLAIN, 2, on=SetUp(large, (PLAIN,)))
    assert first.elapsed_seconds == elapsed_seconds(large) > elapsed_seconds(PLAIN)
    assert second.elapsed_seconds == PHASE_SECONDS == 8
    assert measured(first) == measured(second)


def test_a_run_on_the_set_up_of_its_own_workload_is_like_a_run_alone() -> None:
    noisy = simulated()
    for run, workload in enumerate([PLAIN, *(witness.trigger for witness in F.witnesses)]):
        alone, phase = (
            measured(noisy.measure(workload, run)),
            measured(noisy.measure(workload, run, on=SetUp(workload))),
        )
        assert phase == alone
        assert dict(phase.latency) == dict(alone.latency)


def test_longer_gather_lists_of_the_set_up_make_longer_receives() -> None:
    """The workload has one entry. Receives with room for eight take four times the memory of two."""
    silent, trigger = simulated(noise=0), TRIGGERS[Mechanism.RELIABLE_RECEIVE_CACHE].with_(sge_count=1)
    alone, short, long = (
        measured(silent.measure(trigger, 1, on=SetUp(trigger.with_(sge_count=entries)))) for entries in (1, 2, 8)
    )
    rates = [each.host("b").delivered_bps or 0.0 for each in (alone, short, long)]
    assert rates[0] > 1.1 * rates[1] > 1.1 * rates[2]
    wait = [each.latency["a-b"].median_seconds or 0.0 for each in (alone, short, long)]
    assert wait[0] < wait[1] < wait[2]


def test_capacity_that_a_phase_leaves_idle_costs_nothing() -> None:
    """Caches keep what is used: the docs name the reason for each resource."""
    silent = simulated(noise=0)
    larger = {"qps": 640, "mrs_per_qp": 128, "mr_bytes": 1 << 22, "send_wq_depth": 1024, "recv_wq_depth": 1024}
    flows = {"direction": Direction.BIDIRECTIONAL, "loopback": True}
    for workload in (PLAIN, Workload(opcode=Opcode.SEND, qps=16, wqe_batch=4, messages=(1024,))):
        set_up = SetUp(workload.with_(**larger, **flows))
        assert set_up.misfit(workload) is None
        assert measured(silent.measure(workload, 1, on=set_up)) == measured(silent.measure(workload, 1))


def test_only_the_phase_that_makes_the_set_up_can_fail_to_or_pauses_for_it(many: list[RunResult]) -> None:
    noisy, on = simulated(), SetUp(PLAIN, (PLAIN,))
    failed = [run for run, result in enumerate(many) if isinstance(result, SetupFailed)]
    assert all(isinstance(noisy.measure(PLAIN, run, on=on), Measured) for run in failed)
    assert all(isinstance(noisy.measure(PLAIN, run, on=SetUp(PLAIN)), SetupFailed) for run in failed)
    early = [measured(noisy.measure(PLAIN, run, on=on)).series[1].values["tx_pause_ratio"] or 0.0 for run in range(100)]
    assert max(early) < 0.001


def test_what_the_host_does_not_have_is_unsupported() -> None:
    bare = F.with_part("host", gpu=False, sockets=1)
    on_bare = SimulatedTestbed(bare, CATALOG)
    assert isinstance(on_bare.measure(PLAIN.with_(peer_memory=Memory.GPU), 1), Unsupported)
    assert isinstance(on_bare.measure(PLAIN.with_(numa_node=1), 1), Unsupported)
    assert isinstance(simulated(noise=0).measure(PLAIN.with_(memory=Memory.GPU, numa_node=1), 1), Measured)


def test_it_says_what_it_is() -> None:
    info = simulated().info
    assert (info.kind, info.name, info.virtual_time) == ("simulated", "F", True)
    assert info.description["relaxed_ordering"] == "per_mkey"


def test_a_part_that_an_earlier_collie_lacked_changes_no_fingerprint_until_it_limits() -> None:
    """Else a campaign of an earlier Collie could not be resumed."""

    def hardware(file: SubsystemFile) -> object:
        return SimulatedTestbed(file, CATALOG).info.fingerprints["F"].values["subsystem"]["hardware"]

    earlier = F.hardware.model_dump_json(exclude={"flow_table", "delays", "control_verbs"})
    assert hardware(F) == sha256(earlier.encode()).hexdigest()[:16]
    assert hardware(F.with_part("flow_table", idle_entries=64)) != hardware(F)


def test_settings_change_by_name() -> None:
    changed = F.with_settings({"relaxed_ordering": "forced", "firmware": "22.31"})
    assert changed.settings["relaxed_ordering"].value == "forced"
    assert F.hardware.pcie.strict_ordering
    assert not changed.hardware.pcie.strict_ordering
    assert not changed.hardware.acknowledgements.blocks_data
    assert F.settings["firmware"].value == "22.28"
    with pytest.raises(UsageError, match="no setting 'ordering'; did you mean 'relaxed_ordering'"):
        F.with_settings({"ordering": "forced"})
    with pytest.raises(UsageError, match="no setting 'voltage'; it has firmware"):
        F.with_settings({"voltage": "high"})
    with pytest.raises(UsageError, match="setting relaxed_ordering: 'sometimes' is no option; one of per_mkey, forced"):
        F.with_settings({"relaxed_ordering": "sometimes"})


def test_a_wrong_subsystem_file_says_where(tmp_path: Path) -> None:
    text = (SUBSYSTEM_FOLDER / "F.yaml").read_text()
    wrong = text.replace("lanes: 16", "lanes: 64").replace("  gpu: true", "  gpus: true")
    wrong = wrong.replace("workload: {opcode: READ,", "workload: {opcode: REED,")
    path = tmp_path / "wrong.yaml"
    path.write_text(wrong)
    with pytest.raises(ContentError) as caught:
        load_subsystem(str(path), SubsystemFile)
    problems = str(caught.value)
    assert "pcie.lanes: 64 should be one of 1, 2, 4, 8, 16 or 32" in problems
    assert "unknown key 'gpus'" in problems
    assert "'REED' is unknown" in problems
    assert all(problem.line for problem in caught.value.problems)


def test_impossible_parts_are_refused(tmp_path: Path) -> None:
    text = (SUBSYSTEM_FOLDER / "F.yaml").read_text()
    wrong = text.replace("xoff_bytes: 256KiB", "xoff_bytes: 1MiB").replace(
        "mechanism: read_slow_path", "mechanism: context_cache"
    )
    path = tmp_path / "wrong.yaml"
    path.write_text(wrong)
    with pytest.raises(ContentError) as caught:
        load_subsystem(str(path), SubsystemFile)
    assert "xoff_bytes" in str(caught.value)
    assert "more than one witness of context_cache" in str(caught.value)


def test_a_setting_may_only_change_what_there_is(tmp_path: Path) -> None:
    text = (SUBSYSTEM_FOLDER / "F.yaml").read_text()
    for old, new, message in (
        ("{pcie: {strict_ordering: false}}", "{pci: {strict_ordering: false}}", "there is no part 'pci'"),
        ("{pcie: {strict_ordering: false}}", "{pcie: {strict: false}}", "settings.relaxed_ordering.options.forced"),
        ("value: per_mkey", "value: per_key", "'per_key' is no option; one of per_mkey, forced"),
        ("when_missing: withhold", "when_missing: drop", "an RC message cannot be dropped"),
        ("when_missing: drop", "when_missing: withhold", "UD has no credits"),
    ):
        assert old in text
        path = tmp_path / "wrong.yaml"
        path.write_text(text.replace(old, new))
        with pytest.raises(ContentError, match=message):
            load_subsystem(str(path), SubsystemFile)


def test_a_file_may_say_only_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "based_on: F\nname: mine\ntitle: as F with a small context cache\ncontext_cache: {entries: 100}\n"
        "without: [loopback_incast]\n"
    )
    mine = load_subsystem(str(path), SubsystemFile)
    assert mine.context_cache.entries == 100
    assert mine.context_cache.miss_seconds == F.context_cache.miss_seconds
    assert {witness.mechanism for witness in F.witnesses} - {witness.mechanism for witness in mine.witnesses} == {
        Mechanism.LOOPBACK_INCAST
    }
    for text, message in (
        ("based_on: nowhere\n", "no subsystem has this name"),
        (f"based_on: {path.name}\n", "leads back here"),
        ("based_on: F\nwithout: [duplex_arbiter]\n", "F has no witness of 'duplex_arbiter'"),
        ("name: x\nwithout: [context_cache]\n", "'without' needs 'based_on'"),
        ("based_on: F\nwitnesses: [{mechanism: [[]], title: x, workload: {}}]\n", "mechanism"),
        ("based_on: F\ncontext_cache: {entires: 100}\n", "unknown key 'entires'"),
    ):
        path.write_text(text)
        with pytest.raises(ContentError, match=message):
            load_subsystem(str(path), SubsystemFile)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"opcode": Opcode.FETCH_ADD}, "no atomics"),
        ({"more_opcodes": (Opcode.READ,)}, "one opcode at a time"),
        ({"huge_pages": True}, "knows pages of"),
        ({"connection": Connection.RDMA_CM}, "knows no RDMA-CM"),
        ({"qp_type": QpType.XRC}, "has no XRC; it has RC, UC, UD"),
    ],
)
def test_what_the_model_does_not_know_is_unsupported_and_says_so(changes: dict[str, Any], reason: str) -> None:
    result = simulated().measure(PLAIN.with_(**changes), 1)
    assert isinstance(result, Unsupported)
    assert reason in result.reason
