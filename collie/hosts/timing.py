"""How long the controller waits for hosts."""

from __future__ import annotations

from dataclasses import dataclass

from collie.readings.policy import WindowPolicy

_MOMENT = WindowPolicy(0.05, warm_up_seconds=0.0, window_seconds=0.1, patience_seconds=0.0, averaging_seconds=0.0)
_SECOND = WindowPolicy(0.25, warm_up_seconds=0.0, window_seconds=1.0, patience_seconds=0.0, averaging_seconds=0.0)
_LONG = WindowPolicy(0.5, warm_up_seconds=0.0, window_seconds=3.0, patience_seconds=0.0, averaging_seconds=0.0)


@dataclass(frozen=True, slots=True)
class HostTiming:
    """Pauses and deadlines towards hosts.

    Attributes:
        start_pauses_seconds: pauses between attempts to start an agent, 8.5 s in all. A host that still cleans up may
            be silent for half a minute.
        grace_seconds: wait for an answer beyond the agent's own deadline.
        late_seconds: wait for overdue samples of a run.
        release_seconds: wait for the kernel to release queue pairs of a killed process.
        recovery_seconds: wait for a dead data path. With the spanning tree protocol a switch port forwards after 30 s.
        retry: timing of a repeated test of a data path, for hosts that are short of CPU.
    """

    start_pauses_seconds: tuple[float, ...] = (0.5, 2.0, 6.0)
    grace_seconds: float = 4.0
    late_seconds: float = 3.0
    release_seconds: float = 15.0
    release_period_seconds: float = 0.5
    recovery_seconds: float = 45.0
    idle_seconds: float = 1.0
    clock_seconds: float = 1.0
    small_messages: WindowPolicy = _MOMENT
    full_packets: WindowPolicy = _SECOND
    retry: WindowPolicy = _LONG


DEFAULT_TIMING = HostTiming()
