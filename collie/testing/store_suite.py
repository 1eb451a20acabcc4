"""Conformance of `ports.CampaignStore`. Subclass `StoreSuite` and give it the `store` fixture."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.detect.bounds import Calibration, CalibrationPoint
from collie.detect.measurement import GeneratorHealth, HostMeasurement, Latency, Measurement, Sample, Victim
from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.errors import StoreError
from collie.ports import CampaignHeader, CampaignStore, Measured, RunRecord, SetupFailed, Unsupported
from collie.search.anomaly import Anomaly
from collie.search.likely_cause import DiscriminatingCounter
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Memory, Opcode, QpType, Workload

HEADER = CampaignHeader(
    campaign="suite",
    testbed={"kind": "simulated", "subsystem": "F"},
    space="nsdi22",
    recipe="nsdi22",
    settings={"budget": "10h", "noise": 0.02, "fixed": {"messages": [64, 4096]}, "limit": None},
    seed=1,
    started="2026-01-01T00:00:00Z",
)

WORKLOAD = Workload(
    qp_type=QpType.UD,
    opcode=Opcode.SEND,
    qps=7,
    memory=Memory.GPU,
    mtu=2048,
    messages=(64, 2048),
    sge_count=2,
    sge_split=(16,),
)

MEASUREMENT = Measurement(
    hosts=(
        HostMeasurement(
            "a", tx_pause_ratio=0.0, counters={"absent": None, "tenth": 0.1, "count": 2**53}, tx_pause_frames=3.5
        ),
        HostMeasurement("b", 1e11 / 3, 5e-324, 0.25, None, 0.0, {}),
    ),
    window_seconds=4.05,
    stable=False,
    health=GeneratorHealth(
        False, "the CPU was busy", 0.1, None, {"remote access error": 3}, 0.9, data_path="native", queue_fill_ratio=0.75
    ),
    problems=("link changed",),
    victim=Victim(27e6),
    latency={"a-b": Latency(3e-6, 4e-6)},
    notes=("host a: PFC is off",),
    series=(
        Sample(0.0, "a", {"x": 0.1, "y": None}),
        Sample(0.1, "b", {}),
        Sample(0.2, "a", {"x": 0.3, "y": 2}),
    ),
)

VERDICT = Verdict(Outcome.ANOMALOUS, "host b sends pause for 25.0% of the time", Symptom.PAUSE, 0.25, "b", 250.0)

ANOMALY = Anomaly(
    id="a1",
    symptom=Symptom.PAUSE,
    severity=0.1 + 0.2,
    workload=WORKLOAD,
    found_as=WORKLOAD.with_(qps=9),
    mfs=Mfs(
        (
            Condition("qp_type", Op.EQUAL, "UD"),
            Condition("mtu", Op.ONE_OF, (1024, 2048)),
            Condition("messages", Op.ONE_OF, ((64, 2048), (64,))),
            Condition("qps", Op.AT_LEAST, 7),
        )
    ),
    reason="host b sends pause for 25.0% of the time",
    host="b",
    found_at_run=1,
    found_at_seconds=61.7,
    extraction_runs=11,
    complete=True,
    telling=(
        DiscriminatingCounter("wqe_miss", "receive WQE cache", 1e3 / 3, "receives that had to be fetched", 0.1, 7),
    ),
    hint="arrivals wait for their receive work requests to be fetched, so the host asks its peer to stop",
)


def measured(run: int) -> RunRecord:
    """Return a run that uses every field."""
    return RunRecord(run, "search", WORKLOAD, Measured(MEASUREMENT, 20.1), run * 20.1)


def phase(run: int, set_up: int) -> RunRecord:
    """Return a run that is a phase of a set-up with more capacity than it needs. The set-up stands."""
    return replace(
        measured(run), result=Measured(MEASUREMENT, 20.1, stands=True), set_up=set_up, made_for=WORKLOAD.with_(qps=9)
    )


class StoreSuite:
    """The behaviour that the engine relies on."""

    @pytest.fixture
    def store(self) -> CampaignStore:
        """Return an empty store with the header `HEADER`."""
        raise NotImplementedError

    def test_a_new_store_holds_its_header_and_nothing_else(self, store: CampaignStore) -> None:
        assert store.header == HEADER
        assert list(store.runs()) == []
        assert store.anomalies() == ()
        assert store.calibration() == Calibration()

    def test_a_run_comes_back_as_it_was_given(self, store: CampaignStore) -> None:
        records = [
            measured(1),
            RunRecord(2, "confirm", Workload(), SetupFailed("qp timeout", "qp 3: 'timeout'\n", 1 / 3), 20.1 + 1 / 3),
            RunRecord(3, "extract", Workload(), Unsupported("no GPU", 0.0), 21.0),
            replace(measured(4), verdict=VERDICT, driven="rx_packets"),
        ]
        for record in records:
            store.add_run(record)
        assert list(store.runs()) == records

    def test_a_run_comes_back_as_a_phase_of_its_set_up(self, store: CampaignStore) -> None:
        ended, failed = replace(phase(2, 1), result=measured(2).result), SetupFailed("qp timeout", "qp 3", 9.0)
        records = [phase(1, 1), ended, replace(phase(3, 3), result=failed), measured(4)]
        for record in records:
            store.add_run(record)
        assert list(store.runs()) == records

    def test_samples_are_read_apart_from_their_run(self, store: CampaignStore) -> None:
        store.add_run(measured(1))
        store.add_run(RunRecord(2, "extract", Workload(), Unsupported("no GPU", 0.0), 21.0))
        bare = replace(measured(1), result=Measured(replace(MEASUREMENT, series=()), 20.1))
        assert next(iter(store.runs(with_series=False))) == bare
        assert tuple(store.series(1)) == MEASUREMENT.series
        assert not store.series(2)
        assert not store.series(3)

    def test_runs_come_in_order_of_their_numbers(self, store: CampaignStore) -> None:
        """Pairs of hosts finish in any order."""
        for run in (2, 3, 1):
            store.add_run(measured(run))
        assert [record.run for record in store.runs()] == [1, 2, 3]

    def test_a_run_is_never_overwritten(self, store: CampaignStore) -> None:
        store.add_run(measured(1))
        with pytest.raises(StoreError, match="run 1 is recorded already"):
            store.add_run(RunRecord(1, "search", Workload(), Unsupported("other", 0.0), 0.0))
        assert list(store.runs()) == [measured(1)]

    def test_runs_added_while_runs_are_read_do_not_disturb(self, store: CampaignStore) -> None:
        store.add_run(measured(1))
        seen = []
        for record in store.runs():
            seen.append(record.run)
            store.add_run(measured(record.run + 1))
        assert seen == [1]

    def test_an_annotation_is_kept_with_its_run(self, store: CampaignStore) -> None:
        store.add_run(measured(1))
        store.annotate(1, None, "rx_packets")
        store.annotate(1, VERDICT, "pressure")
        assert list(store.runs()) == [replace(measured(1), verdict=VERDICT, driven="pressure")]

    def test_a_verdict_changes_neither_the_set_up_of_its_run_nor_whether_it_stands(self, store: CampaignStore) -> None:
        store.add_run(phase(2, 1))
        store.annotate(2, VERDICT, "pressure")
        assert list(store.runs()) == [replace(phase(2, 1), verdict=VERDICT, driven="pressure")]

    def test_an_unknown_run_cannot_be_annotated(self, store: CampaignStore) -> None:
        with pytest.raises(StoreError, match="no run 5"):
            store.annotate(5, VERDICT, None)
        assert list(store.runs()) == []

    def test_an_anomaly_comes_back_as_it_was_given(self, store: CampaignStore) -> None:
        store.add_run(measured(1))
        store.add_anomaly(ANOMALY)
        assert store.anomalies() == (ANOMALY,)

    def test_an_anomaly_that_is_given_again_keeps_its_place(self, store: CampaignStore) -> None:
        bare = replace(ANOMALY, mfs=Mfs(()), complete=False, host=None)
        second = replace(ANOMALY, id="a2", symptom=Symptom.LOW_THROUGHPUT)
        store.add_anomaly(bare)
        store.add_anomaly(second)
        store.add_anomaly(ANOMALY)
        assert store.anomalies() == (ANOMALY, second)

    def test_the_last_calibration_counts(self, store: CampaignStore) -> None:
        first = Calibration((CalibrationPoint(QpType.RC, Opcode.WRITE, 64, 1e9 / 3, 0.01),))
        second = Calibration((*first.points, CalibrationPoint(QpType.UD, Opcode.SEND, 4096, 9e9)))
        store.set_calibration(first)
        store.set_calibration(second)
        assert store.calibration() == second

    def test_closing_twice_does_no_harm(self, store: CampaignStore) -> None:
        store.add_run(measured(1))
        store.close()
        store.close()
