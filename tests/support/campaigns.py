"""A small campaign with everything that a report has to show, for tests of what reads campaigns."""

from __future__ import annotations

from collections.abc import Iterator

from collie.detect.judge import judge
from collie.detect.plain import plain_sibling
from collie.detect.symptom import Symptom, Verdict
from collie.detect.thresholds import Thresholds
from collie.ports import CampaignHeader, CampaignStore, Measured, RunRecord
from collie.search.anomaly import Anomaly
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.dimension import Choice, Ordered
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.space import Space
from collie.workloads.workload import Memory, Opcode, QpType, Workload

SPACE = Space(
    "small",
    {
        "loopback": Choice("loopback", (False, True), False),
        "memory": Choice("memory", tuple(Memory), Memory.DRAM),
        "opcode": Choice("opcode", (Opcode.WRITE, Opcode.SEND), Opcode.WRITE),
        "qps": Ordered("qps", 1, 1024, (1, 8, 64, 512, 1024), 8),
        "wqe_batch": Ordered("wqe_batch", 1, 64, (1, 8, 64), 1),
    },
)

HEADER = CampaignHeader(
    campaign="example",
    testbed={"kind": "simulated", "name": "F", "line_bps": 100e9},
    space="small",
    recipe="nsdi22",
    settings={"budget": "45m", "testbed": {"hosts": None, "noise": 0.0}},
    seed=1,
    started="2026-01-01T10:15:00Z",
)

PAUSING = Mfs((Condition("qps", Op.AT_LEAST, 64), Condition("opcode", Op.EQUAL, "SEND")))
SLOW = Mfs((Condition("wqe_batch", Op.AT_LEAST, 8), Condition("loopback", Op.EQUAL, True)))

PLANTED = (Planted(PAUSING, Symptom.PAUSE, 0.182), Planted(SLOW, Symptom.LOW_THROUGHPUT, 0.62))


def fill(store: CampaignStore, rounds: int = 10) -> None:
    """Run a fixed list of workloads on a fake testbed and record runs, verdicts and two anomalies."""
    testbed = FakeTestbed(
        PLANTED, setup_failure_ratio=0.1, unsupported=lambda w: "no GPU" if w.memory is Memory.GPU else None
    )
    seconds = 0.0
    for run, (purpose, workload) in enumerate(_plan(rounds), start=1):
        result = testbed.measure(workload, run)
        seconds += result.elapsed_seconds
        store.add_run(RunRecord(run, purpose, workload, result, seconds))
        if isinstance(result, Measured):
            verdict = judge(workload, result.measurement, testbed.specification(workload), Thresholds())
            driven = ("pressure" if run % 3 else "rx_packets") if purpose == "search" else None
            store.annotate(run, verdict, driven)
    store.add_anomaly(_anomaly("a1", _SENDING, PAUSING, Symptom.PAUSE, 0.182, 3, 95.0))
    store.add_anomaly(_anomaly("a2", _LOOPING, SLOW, Symptom.LOW_THROUGHPUT, 0.62, 5, 160.0, complete=False))


_SENDING = Workload(opcode=Opcode.SEND, qps=64)
_LOOPING = Workload(qps=8, wqe_batch=8, loopback=True)


def _plan(rounds: int) -> Iterator[tuple[str, Workload]]:
    yield "calibrate", SPACE.base
    for _ in range(rounds):
        yield "search", SPACE.base
        yield "search", _SENDING
        yield "sibling", plain_sibling(_LOOPING, SPACE)
        yield "search", _LOOPING
        yield "confirm", _LOOPING
        yield "search", Workload(memory=Memory.GPU)
        yield "search", Workload(qp_type=QpType.UC, qps=512)


def _anomaly(
    identifier: str,
    workload: Workload,
    mfs: Mfs,
    symptom: Symptom,
    severity: float,
    run: int,
    seconds: float,
    *,
    complete: bool = True,
) -> Anomaly:
    verdict = _verdict(workload)
    return Anomaly(
        id=identifier,
        symptom=symptom,
        severity=severity,
        workload=workload,
        found_as=workload,
        mfs=mfs,
        reason=verdict.reason,
        host=verdict.host,
        found_at_run=run,
        found_at_seconds=seconds,
        extraction_runs=7,
        complete=complete,
    )


def _verdict(workload: Workload) -> Verdict:
    testbed = FakeTestbed(PLANTED)
    result = testbed.measure(workload, 1)
    assert isinstance(result, Measured)
    return judge(workload, result.measurement, testbed.specification(workload), Thresholds())
