"""Every store keeps a campaign as the engine expects, and all of them agree."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from collie.errors import StoreError
from collie.ports import CampaignHeader, CampaignStore, RunRecord
from collie.store.memory import MemoryStore
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER, StoreSuite, measured
from tests.support.strategies import anomalies, calibrations, headers, run_records, texts, verdicts


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    def store(self) -> CampaignStore:
        return MemoryStore(HEADER)


class TestSqliteStore(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[CampaignStore]:
        store = SqliteStore.create(tmp_path / "campaign", HEADER)
        yield store
        store.close()


class StoresAgree(RuleBasedStateMachine):
    """Drives a store in memory and one on disk, which is also closed and opened again, and compares them."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self._path = Path(self._directory.name) / "campaign"

    @initialize(header=headers())
    def create(self, header: CampaignHeader) -> None:
        self.memory = MemoryStore(header)
        self.disk = SqliteStore.create(self._path, header)

    @rule(record=run_records(runs=st.integers(1, 6)))
    def add_run(self, record: RunRecord) -> None:
        self._both(lambda store: store.add_run(record))

    @rule(run=st.integers(1, 6), verdict=st.none() | verdicts(), driven=st.none() | texts)
    def annotate(self, run: int, verdict: Any, driven: str | None) -> None:
        self._both(lambda store: store.annotate(run, verdict, driven))

    @rule(anomaly=anomalies(ids=st.sampled_from(["a1", "a2", "a3"])))
    def add_anomaly(self, anomaly: Any) -> None:
        self._both(lambda store: store.add_anomaly(anomaly))

    @rule(calibration=calibrations())
    def set_calibration(self, calibration: Any) -> None:
        self._both(lambda store: store.set_calibration(calibration))

    @rule()
    def reopen(self) -> None:
        self.disk.close()
        self.disk = SqliteStore.open(self._path)

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "disk"):
            return
        assert self.disk.header == self.memory.header
        assert list(self.disk.runs()) == list(self.memory.runs())
        assert self.disk.anomalies() == self.memory.anomalies()
        assert self.disk.calibration() == self.memory.calibration()

    def _both(self, act: Any) -> None:
        outcomes = []
        for store in (self.memory, self.disk):
            try:
                act(store)
                outcomes.append("done")
            except StoreError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]

    def teardown(self) -> None:
        if hasattr(self, "disk"):
            self.disk.close()
        self._directory.cleanup()


TestStoresAgree = StoresAgree.TestCase
TestStoresAgree.settings = settings(max_examples=20, stateful_step_count=15)


def test_what_one_handle_writes_a_reader_sees_at_once(tmp_path: Path) -> None:
    path = tmp_path / "campaign"
    with SqliteStore.create(path, HEADER) as writer, SqliteStore.open(path, read_only=True) as reader:
        writer.add_run(measured(1))
        writer.add_anomaly(ANOMALY)
        assert list(reader.runs()) == [measured(1)]
        assert reader.anomalies() == (ANOMALY,)
        with pytest.raises(StoreError, match="for reading only"):
            reader.add_run(measured(2))
