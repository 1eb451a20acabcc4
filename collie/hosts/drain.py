"""How long a phase may take until its outstanding work requests have completed. Pure."""

from __future__ import annotations

from collie.detect.measurement import Measurement
from collie.workloads.plan import flows
from collie.workloads.workload import QpType, Workload

_LEAST_SECONDS = 0.5
"""The agents and a slow host's kernel."""
MOST_SECONDS = 8.0
"""Beyond it, a new set-up is cheaper."""
_SLOWER = 4.0
"""The last work requests of a queue pair may go at a part of the mean rate, if others have starved it."""
_UNKNOWN_BPS = 1e8
_ACK_UNIT_SECONDS = 4.096e-6
_INFINITE_RETRIES = 7
_RNR_MILLISECONDS = (
    655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
    2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
)  # fmt: skip
"""RNR NAK timers by the code of `min_rnr_timer` (InfiniBand Architecture Specification, table 45)."""


def drain_seconds(workload: Workload, measured: Measurement) -> float:
    """Return the deadline of a drain: the bytes outstanding at the measured rate, and one round of retries."""
    payloads = [size for _, size in workload.turn]
    outstanding_bits = 8 * workload.qps * len(flows(workload)) * workload.send_wq_depth * sum(payloads) / len(payloads)
    rate = sum(host.delivered_bps or 0.0 for host in measured.hosts) or _UNKNOWN_BPS
    seconds = _LEAST_SECONDS + _SLOWER * outstanding_bits / rate
    if workload.qp_type is QpType.RC:
        seconds += workload.retry_cnt * _ACK_UNIT_SECONDS * (1 << workload.timeout)
        tries = min(workload.rnr_retry, _INFINITE_RETRIES)
        seconds += tries * _RNR_MILLISECONDS[workload.min_rnr_timer] / 1000
    return min(MOST_SECONDS, seconds)
