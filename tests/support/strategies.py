"""Hypothesis strategies for everything that a campaign records: any value that its type allows, sensible or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from collie.detect.bounds import Calibration, CalibrationPoint
from collie.detect.links import LinkLatency
from collie.detect.measurement import GeneratorHealth, HostMeasurement, Latency, Measurement, Sample, Victim
from collie.detect.symptom import Outcome, Received, Symptom, Verdict
from collie.ports import CampaignHeader, HostLost, Measured, PairLost, RunRecord, RunResult, SetupFailed, Unsupported
from collie.search.anomaly import Anomaly
from collie.search.second_cause import Floor
from collie.untrusted import sanitized
from collie.workloads.feature import DERIVED, Condition, Mfs, Op
from collie.workloads.plan import MAX_PARTNERS, MAX_RAILS, sinks
from collie.workloads.workload import EVEN, FIELD_NAMES, Connection, Direction, Memory, Opcode, QpType, Workload

numbers = st.floats(allow_nan=False, allow_infinity=False)
readings = st.none() | numbers | st.integers(-(2**70), 2**70)
texts = st.text(max_size=20).map(sanitized)
seconds = st.floats(0, 1e9)

_sizes = st.lists(st.integers(1, 1 << 30), min_size=1, max_size=4).map(tuple)
_whole_numbers = st.integers(-(2**63), 2**63)
_counts = st.integers(1, 200_000)
_run_numbers = st.integers(1, 2**40)
_identifiers = st.integers(1, 99).map(lambda number: f"a{number}")
_plain_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def workloads() -> st.SearchStrategy[Workload]:
    """Workloads whose fields are valid one by one; constraints between them are not kept."""
    return st.builds(
        Workload,
        direction=st.sampled_from(Direction),
        loopback=st.booleans(),
        numa_node=st.integers(0, 7),
        peer_numa_node=st.integers(0, 7),
        memory=st.sampled_from(Memory),
        peer_memory=st.sampled_from(Memory),
        huge_pages=st.booleans(),
        requesters=st.integers(1, MAX_PARTNERS),
        responders=st.integers(1, MAX_PARTNERS),
        rails=st.integers(1, MAX_RAILS),
        remote=st.booleans(),
        mrs_per_qp=_counts,
        mr_bytes=st.integers(1, 1 << 40),
        qp_type=st.sampled_from(QpType),
        opcode=st.sampled_from(Opcode),
        more_opcodes=st.lists(st.sampled_from(Opcode), max_size=3).map(tuple),
        qps=_counts,
        mtu=st.sampled_from([256, 512, 1024, 2048, 4096]),
        wqe_batch=_counts,
        signal_every=_counts,
        sge_count=st.integers(1, 32),
        sge_split=st.just(EVEN) | _sizes,
        send_wq_depth=_counts,
        recv_wq_depth=_counts,
        messages=_sizes,
        offered_bps=st.just(0) | st.integers(1, 1 << 40),
        new_mrs_per_second=st.just(0) | st.integers(1, 10**6),
        new_qps_per_second=st.just(0) | st.integers(1, 10**6),
        new_ahs_per_second=st.just(0) | st.integers(1, 10**6),
        qp_errors_per_second=st.just(0) | st.integers(1, 10**6),
        control_verbs_imitated=st.booleans(),
        max_inline_data=st.integers(0, 1024),
        max_rd_atomic=st.integers(1, 255),
        max_dest_rd_atomic=st.integers(1, 255),
        timeout=st.integers(0, 31),
        retry_cnt=st.integers(0, 7),
        rnr_retry=st.integers(0, 7),
        min_rnr_timer=st.integers(0, 31),
        connection=st.sampled_from(Connection),
        sq_sig_all=st.booleans(),
        srq=st.booleans(),
        fence=st.booleans(),
        sq_psn=st.integers(0, 0xFFFFFF),
        traffic_class=st.integers(0, 255),
        hop_limit=st.integers(0, 255),
    )


def feature_sets() -> st.SearchStrategy[Mfs]:
    """Minimal feature sets over any feature. Exact values are those of workloads. Limits need not make sense."""
    condition = st.one_of(
        st.builds(
            lambda among, name: Condition(name, Op.ONE_OF, tuple(workload.get(name) for workload in among)),
            st.lists(workloads(), min_size=1, max_size=3),
            st.sampled_from(FIELD_NAMES),
        ),
        st.builds(
            lambda workload, name: Condition(name, Op.EQUAL, workload.get(name)),
            workloads(),
            st.sampled_from(FIELD_NAMES),
        ),
        st.builds(
            Condition,
            st.sampled_from(tuple(DERIVED)),
            st.sampled_from([Op.AT_LEAST, Op.AT_MOST]),
            st.integers(0, 2**63),
        ),
    )
    return st.builds(Mfs, st.lists(condition, max_size=4).map(tuple))


def measurements() -> st.SearchStrategy[Measurement]:
    """Measurements with any readings, known or not."""
    host = st.builds(
        HostMeasurement,
        host=st.sampled_from(["a", "b"]),
        delivered_bps=readings,
        delivered_pps=readings,
        tx_pause_ratio=readings,
        rx_pause_ratio=readings,
        loss_ratio=readings,
        counters=st.dictionaries(texts, readings, max_size=4),
        rnr_ratio=readings,
        repeat_ratio=readings,
        peak_bps=readings,
    )
    health = st.builds(
        GeneratorHealth,
        driven=st.booleans(),
        reason=texts,
        idle_poll_ratio=readings,
        empty_queue_ratio=readings,
        completion_errors=st.dictionaries(texts, st.integers(0, 2**40), max_size=2),
        qp_rate_ratio=readings,
        slowest_qp_share=readings,
        cpu_wait_ratio=readings,
        data_path=st.sampled_from([None, "native", "pyverbs"]),
        queue_fill_ratio=readings,
        pacing_error_ratio=readings,
        starved=st.none() | st.booleans(),
    )
    intervals = st.none() | st.tuples(seconds, seconds)
    latency = st.builds(
        Latency,
        *(readings, readings, readings, st.none() | st.integers(0, 2**40)),
        *(intervals, intervals, intervals, readings, st.sampled_from([None, "nic", "host"])),
    )
    sample = st.builds(Sample, seconds, st.sampled_from(["a", "b"]), st.dictionaries(texts, readings, max_size=3))
    return st.builds(
        Measurement,
        hosts=st.lists(host, max_size=2).map(tuple),
        window_seconds=seconds,
        stable=st.booleans(),
        health=health,
        problems=st.lists(texts, max_size=2).map(tuple),
        series=st.lists(sample, max_size=4).map(tuple),
        wrong_bytes=st.none() | st.integers(0, 2**40),
        victim=st.none() | st.builds(Victim, readings, readings, st.integers(0, 10**12), st.none() | latency),
        latency=st.dictionaries(texts, latency, max_size=2),
    )


def verdicts() -> st.SearchStrategy[Verdict]:
    """Verdicts with any combination of fields."""
    return st.builds(
        Verdict,
        outcome=st.sampled_from(Outcome),
        reason=texts,
        symptom=st.none() | st.sampled_from(Symptom),
        severity=numbers,
        host=st.none() | texts,
        bound_bps=readings,
    )


def run_results() -> st.SearchStrategy[RunResult]:
    """All kinds of result."""
    return st.one_of(
        st.builds(Measured, measurements(), seconds, st.booleans()),
        st.builds(SetupFailed, texts, texts, seconds),
        st.builds(HostLost, texts, texts, seconds),
        st.builds(PairLost, texts, texts, seconds),
        st.builds(Unsupported, texts, seconds),
    )


def run_records(runs: st.SearchStrategy[int] = _run_numbers) -> st.SearchStrategy[RunRecord]:
    """Runs, with or without annotations.

    Args:
        runs: their numbers.
    """
    return (
        st.builds(
            RunRecord,
            run=runs,
            purpose=st.sampled_from(["search", "sibling", "confirm", "extract", "calibrate", "reproduce"]),
            workload=workloads(),
            result=run_results(),
            finished_at_seconds=seconds,
            verdict=st.none() | verdicts(),
            driven=st.none() | texts,
            set_up=_run_numbers,
            made_for=st.none() | workloads(),
        )
        .map(_with_each_sink)
        .map(_with_set_up_before)
    )


def _with_set_up_before(record: RunRecord) -> RunRecord:
    """Return the run with its set-up from a run up to this one, or without one of others, as all runs have."""
    set_up = record.set_up or 0
    return replace(record, set_up=None if record.made_for is None else 1 + set_up % record.run)


def _with_each_sink(record: RunRecord) -> RunRecord:
    """Return the run with a reading, if an unknown one, of each host that its workload sends to, as all runs have."""
    if not isinstance(record.result, Measured):
        return record
    measurement = record.result.measurement
    missing = set(sinks(record.workload)) - {host.host for host in measurement.hosts}
    hosts = (*measurement.hosts, *map(HostMeasurement, sorted(missing)))
    return replace(record, result=replace(record.result, measurement=replace(measurement, hosts=hosts)))


def anomalies(ids: st.SearchStrategy[str] = _identifiers) -> st.SearchStrategy[Anomaly]:
    """Findings.

    Args:
        ids: their identifiers.
    """
    rates = st.floats(1e-3, 1e15)
    received = st.builds(Received, rates, rates)
    return st.builds(
        Anomaly,
        id=ids,
        symptom=st.sampled_from(Symptom),
        severity=numbers,
        workload=workloads(),
        found_as=workloads(),
        mfs=feature_sets(),
        reason=texts,
        host=st.none() | texts,
        found_at_run=_run_numbers,
        found_at_seconds=seconds,
        extraction_runs=st.integers(0, 200),
        complete=st.booleans(),
        fresh_runs=st.integers(9, 20),
        fresh_shows=st.integers(0, 9),
        floor=st.builds(Floor, st.floats(0.0, 1.0), st.none() | received, st.floats(1.0, 1e6)),
        history=st.lists(st.sampled_from([1, 2, 4]), max_size=3),
    ).map(_with_history)


def _with_history(anomaly: Anomaly) -> Anomaly:
    """Return the anomaly with phases on a set-up that they fit, or without any. `history` holds their post sizes."""
    if not anomaly.history:
        return replace(anomaly, history=())
    made_for = anomaly.workload.with_(srq=False)
    phases = tuple(made_for.with_(wqe_batch=batch) for batch in anomaly.history)
    return replace(anomaly, workload=made_for, made_for=made_for, history=phases)


def calibrations() -> st.SearchStrategy[Calibration]:
    """Calibrations."""
    point = st.builds(
        CalibrationPoint,
        qp_type=st.sampled_from(QpType),
        opcode=st.sampled_from(Opcode),
        message_bytes=st.integers(1, 1 << 30),
        bps=numbers,
        spread=numbers,
    )
    days = st.none() | st.dates().map(str)
    seconds = st.floats(1e-7, 10.0)
    link = st.builds(LinkLatency, st.sampled_from(["a-b", "a-c"]), workloads(), seconds, seconds)
    return st.builds(Calibration, st.lists(point, max_size=4).map(tuple), days, st.lists(link, max_size=2).map(tuple))


def headers() -> st.SearchStrategy[CampaignHeader]:
    """Campaign headers whose settings are any JSON values."""
    mapping = st.dictionaries(texts, _plain_values, max_size=4)
    return st.builds(
        CampaignHeader,
        campaign=texts,
        testbed=mapping,
        space=texts,
        recipe=texts,
        settings=mapping,
        seed=st.integers(),
        started=texts,
    )
