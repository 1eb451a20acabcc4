"""Diagnoses of planted anomalies."""

from __future__ import annotations

from collie.app.diagnoses import drive
from collie.campaign.diagnose import Diagnosis
from collie.campaign.single_run import SingleRunSession
from collie.detect.bounds import Calibration
from collie.detect.thresholds import Thresholds
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.space import Space
from collie.workloads.workload import Workload
from tests.support.planted import HEADER, SPACE


def at_least(**limits: int) -> Mfs:
    return Mfs(tuple(Condition(name, Op.AT_LEAST, value) for name, value in limits.items()))


def diagnosed(
    workload: Workload, *planted: Planted, every: bool = False, space: Space = SPACE
) -> tuple[Diagnosis, list[Workload]]:
    """Return the diagnosis, and the workloads that ran in order."""
    store = MemoryStore(HEADER)
    session = SingleRunSession(FakeTestbed(planted), store, space, Thresholds(), Calibration(), ListSink())
    return drive(session, workload, every=every), [record.workload for record in store.runs()]
