"""Readings beyond which a run is anomalous. A recipe can set them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from collie.limits import Factor, Positive, Ratio


class Loss(StrEnum):
    """Whose loss makes a run anomalous."""

    OF_WORKLOAD = "workload"
    """That of the workload and of the hosts."""
    OF_VICTIM = "victim"
    """That of the plain flow beside the workload."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Readings beyond which a run is anomalous.

    Attributes:
        loss_of: whose loss counts.
        victim_loss: share of its throughput beside plain traffic that the victim must lack.
        pause_ratio: share of time. Above 0 because NICs pause briefly while connections are set up (paper 5.2).
        pause_frames: frames/s, on NICs that count frames but not time. At 100 Gbit/s a frame stops the peer for at most
            335 us, so fewer frames take less than 0.1 % of the time.
        throughput_deficit: missing share of the bound, in bits/s and in packets/s.
        loss_ratio: packets discarded or out of sequence over packets received, on NICs without pause counters.
        rnr_ratio: share of arriving messages rejected for want of a receive. An emptied receive queue is not refilled
            at once.
        repeat_ratio: packets that had been received before, over packets received.
        qp_deficit: share of its flow's mean that the slowest queue pair lacks. A queue pair at half of the mean is
            slow, a queue pair at a tenth is starved.
        stall_seconds: time without a completion while requests are outstanding.
        latency_ratio: multiple of the plain sibling's latency, for the median or for 99 % of the messages.
        latency_seconds: what such a latency must exceed the sibling's by, or that of a link its calibration. Below it
            no application notices.
        load_missed: share of the offered load up to which a workload carries it.
        link_ratio: multiple of the latency at the calibration beyond which plain traffic shows a slow link.
    """

    loss_of: Loss = Loss.OF_WORKLOAD
    victim_loss: Ratio = 0.2
    pause_ratio: Ratio = 0.001
    pause_frames: Factor = 3.0
    throughput_deficit: Ratio = 0.2
    loss_ratio: Ratio = 0.001
    rnr_ratio: Ratio = 0.05
    repeat_ratio: Ratio = 0.01
    qp_deficit: Ratio = 0.9
    stall_seconds: Positive = 0.5
    latency_ratio: Factor = 4.0
    latency_seconds: Positive = 25e-6
    load_missed: Ratio = 0.02
    link_ratio: Factor = 2.0
