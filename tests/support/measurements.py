"""Measurements of one sink for tests of verdicts."""

from __future__ import annotations

from collie.detect.bounds import Bound
from collie.detect.judge import judge
from collie.detect.measurement import GeneratorHealth, HostMeasurement, Measurement
from collie.detect.symptom import Verdict
from collie.detect.thresholds import Thresholds
from collie.workloads.workload import Workload

LINE = Bound(100e9, 10e6, "specification")
ONE_WAY = Workload()


def measurement(
    bps: float | None = 95e9,
    pps: float | None = 9.5e6,
    *,
    tx_pause: float | None = 0.0,
    rx_pause: float | None = 0.0,
    loss: float | None = None,
    stable: bool = True,
    health: GeneratorHealth | None = None,
    problems: tuple[str, ...] = (),
    rnr: float | None = None,
    repeats: float | None = None,
    wrong_bytes: int | None = None,
    peak: float | None = None,
) -> Measurement:
    sender = HostMeasurement("a", tx_pause_ratio=tx_pause and 0.0, rx_pause_ratio=rx_pause)
    receiver = HostMeasurement(
        "b", bps, pps, tx_pause, tx_pause and 0.0, loss, rnr_ratio=rnr, repeat_ratio=repeats, peak_bps=peak
    )
    made = health or GeneratorHealth()
    return Measurement((sender, receiver), 4.0, stable, made, problems, wrong_bytes=wrong_bytes)


def verdict(found: Measurement, bound: Bound = LINE) -> Verdict:
    return judge(ONE_WAY, found, bound, Thresholds())
