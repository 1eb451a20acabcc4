"""Safety on real networks: limits that stop a run, end a campaign or forbid its start.

A `Guard` receives every sample of every run through the testbed's `watch`, so simulator and hosts share it.

1. It stops a run at the first sample beyond a limit. The run ends with that sample.
2. Pause is pause *sent* by a host, in seconds: a sample's share of time multiplied by its length.
3. Use is computed from recorded samples, so a resumed campaign knows its past use. Unrecorded pause, such as that of a
   failed set-up, counts only in the current process.
4. Parallel runs share one budget. With virtual time, and in another process, each run sees only the use before
   its start. Thread order therefore does not affect the results of a seed.
5. A limit does not apply to a device that lacks its reading: a NIC without pause counters has no pause budget.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from collie.detect.measurement import Sample, Watch
from collie.errors import PortShared, UsageError
from collie.inventory.safety import SafetyLimits
from collie.ports import ForeignUse, Measured, RunResult
from collie.workloads.units import format_rate, format_seconds, format_short_seconds

OPTIONS = {
    "pause_per_second": "--max-pause-per-second",
    "pause_per_campaign": "--max-pause",
    "rate_bps": "--max-rate",
}
"""Option of each limit on the command line."""

_SECOND = 1.0
_SAME_MOMENT = 1e-6


class LimitUsage(NamedTuple):
    """One run's use of the limits."""

    pause_seconds: float = 0.0
    has_pause_reading: bool = False
    stopped: bool = False


class Guard:
    """The safety limits of a campaign and their use. Several threads can watch runs.

    Attributes:
        pause_seconds: pause sent by all hosts together, as their counters report it.
        has_pause_reading: whether any sample has a pause reading. If none has, there is no pause budget.
    """

    def __init__(self, limits: SafetyLimits | None = None) -> None:
        self.limits = limits or SafetyLimits()
        self.pause_seconds = 0.0
        self.has_pause_reading = False
        self.stopped_runs = 0
        self._under_way: list[_RunWatch] = []
        self._accounting = Lock()

    @property
    def spent(self) -> bool:
        """Whether the campaign's pause budget is used up."""
        budget = self.limits.pause_per_campaign
        return budget is not None and self.pause_seconds >= budget

    def watch(self, *, virtual_time: bool = False) -> Watch | None:
        """Return the watch of the next run, or None without limits."""
        if self.limits.unlimited:
            return None
        with self._accounting:
            watch = _RunWatch(self.limits, self.pause_seconds, None if virtual_time else self)
            self._under_way.append(watch)
        return watch

    def usage(self, result: RunResult) -> LimitUsage:
        """Return the use of a run, computed from its samples."""
        if self.limits.unlimited or not isinstance(result, Measured):
            return LimitUsage()
        meter = _RunWatch(SafetyLimits(), 0.0)
        for sample in result.measurement.series:
            meter(sample)
        return LimitUsage(meter.pause_seconds, meter.has_pause_reading, result.measurement.stopped is not None)

    def account(self, usage: LimitUsage, watch: Watch | None = None) -> None:
        """Add the use of a run, either watched or taken from the record.

        A watch also sees pause that no record has, such as that of a lost agent or a failed set-up.
        """
        watched, has_reading = (
            (watch.pause_seconds, watch.has_pause_reading) if isinstance(watch, _RunWatch) else (0.0, False)
        )
        with self._accounting:
            self._under_way = [each for each in self._under_way if each is not watch]
            self.pause_seconds += max(usage.pause_seconds, watched)
            self.has_pause_reading |= usage.has_pause_reading or has_reading
            self.stopped_runs += usage.stopped

    def used_beside(self, watch: Watch | None) -> float:
        """Return the pause of all runs except the watched one, in seconds."""
        with self._accounting:
            return self.pause_seconds + sum(each.pause_seconds for each in self._under_way if each is not watch)

    def sent(self) -> float | None:
        """Return the pause of all runs in seconds, stopped runs included, or None without a reading."""
        has_reading = self.has_pause_reading or any(each.has_pause_reading for each in self._under_way)
        return self.used_beside(None) if has_reading else None


@dataclass(frozen=True, slots=True)
class SafetyRecord:
    """A campaign's effect on the network. None is an unknown quantity."""

    limits: SafetyLimits
    pause_seconds: float | None
    stopped_runs: int
    queue_pairs_left: Mapping[str, int | None]

    @property
    def left_behind(self) -> bool:
        """Whether a host is known to have queue pairs of Collie left."""
        return any(self.queue_pairs_left.values())

    def __str__(self) -> str:
        left = [f"{'unknown' if n is None else n} on {host}" for host, n in self.queue_pairs_left.items()]
        parts = [f"queue pairs left: {', '.join(left)}"] if left else []
        sent = "unknown" if self.pause_seconds is None else f"{_time(self.pause_seconds)}, start-ups included"
        return "; ".join([*parts, f"pause sent: {sent}", f"runs stopped early: {self.stopped_runs}"])


def record_of(guard: Guard, queue_pairs_left: Mapping[str, int | None]) -> SafetyRecord | None:
    """Return a campaign's effect on the network, or None for a simulation without limits."""
    metered = not guard.limits.unlimited
    if not metered and not queue_pairs_left:
        return None
    return SafetyRecord(guard.limits, guard.sent() if metered else None, guard.stopped_runs, queue_pairs_left)


class _Paused(NamedTuple):
    """Pause that a host sent between two samples. All in seconds."""

    begin: float
    end: float
    seconds: float


class _RunWatch:
    """Watches one run. In another process it has no guard."""

    def __init__(self, limits: SafetyLimits, used_before: float, guard: Guard | None = None) -> None:
        self._limits = limits
        self._used_before = used_before
        self._guard = guard
        self.pause_seconds = 0.0
        self.has_pause_reading = False
        self._last: dict[str, float] = {}
        self._recent: dict[str, deque[_Paused]] = defaultdict(deque)

    def __reduce__(self) -> tuple[type[_RunWatch], tuple[SafetyLimits, float]]:
        """Copy for another process, without the use of parallel runs."""
        return _RunWatch, (self._limits, self._used_before)

    def __call__(self, sample: Sample) -> str | None:
        begin = self._last.get(sample.host, 0.0)
        if begin >= sample.seconds:  # a run that lost its agent begins again from zero
            begin = min(0.0, sample.seconds)  # pause from before the traffic is not Collie's
            self._recent[sample.host].clear()
        self._last[sample.host] = sample.seconds
        self._add(sample, begin)
        return self._storm(sample.host) or self._spent() or self._rate(sample)

    def _add(self, sample: Sample, begin: float) -> None:
        ratio = sample.values.get("tx_pause_ratio")
        self.has_pause_reading |= ratio is not None
        paused = (ratio or 0.0) * (sample.seconds - begin)
        self.pause_seconds += paused
        recent = self._recent[sample.host]
        recent.append(_Paused(begin, sample.seconds, paused))
        # Drop entries older than a second. The newest stays, however long it is.
        while len(recent) > 1 and recent[0].begin < sample.seconds - _SECOND - _SAME_MOMENT:
            recent.popleft()

    def _storm(self, host: str) -> str | None:
        limit, recent = self._limits.pause_per_second, self._recent[host]
        span = max(_SECOND, recent[-1].end - recent[0].begin)
        paused = sum(each.seconds for each in recent) / span
        if limit is None or paused <= limit:
            return None
        return (
            f"host {host} sent pause for {_time(paused)} within a second, more than the "
            f"{_time(limit)} allowed ({OPTIONS['pause_per_second']})"
        )

    def _spent(self) -> str | None:
        limit = self._limits.pause_per_campaign
        if limit is None:
            return None
        before = self._used_before if self._guard is None else self._guard.used_beside(self)
        if before + self.pause_seconds <= limit:
            return None
        return f"pause sent so far exceeds the {_time(limit)} allowed ({OPTIONS['pause_per_campaign']})"

    def _rate(self, sample: Sample) -> str | None:
        limit = self._limits.rate_bps
        rate = max(sample.values.get(way) or 0.0 for way in ("delivered_bps", "sent_bps"))
        if limit is None or rate <= limit:
            return None
        return (
            f"host {sample.host} moves {format_rate(rate)}, more than the {format_rate(limit)} allowed "
            f"({OPTIONS['rate_bps']})"
        )


def described(limits: SafetyLimits) -> dict[str, str]:
    """Return each limit in words, by its option on the command line."""
    values = {name: getattr(limits, name) for name in OPTIONS}
    return {OPTIONS[name]: "no limit" if value is None else _words(name, value) for name, value in values.items()}


def tightened(site: SafetyLimits, wanted: SafetyLimits) -> SafetyLimits:
    """Return the limits of a site, tightened as requested. A looser request is a UsageError."""
    chosen: dict[str, float | None] = {}
    for name in OPTIONS:
        own, other = getattr(site, name), getattr(wanted, name)
        if own is not None and other is not None and other > own:
            raise UsageError(
                f"{OPTIONS[name]} {_words(name, other)} is more than the {_words(name, own)} that this site allows; "
                "options tighten limits, `safety:` in the hosts file loosens them"
            )
        chosen[name] = own if other is None else other
    return SafetyLimits(**chosen)


def replaced(before: SafetyLimits, wanted: SafetyLimits) -> SafetyLimits:
    """Return the earlier limits, each replaced if another value is requested."""
    changes = {name: value for name in OPTIONS if (value := getattr(wanted, name)) is not None}
    return dataclasses.replace(before, **changes)


def require_unshared(uses: Iterable[ForeignUse], *, shared_port: bool) -> tuple[ForeignUse, ...]:
    """Refuse to begin on ports in other use, unless `shared_port`. Return the uses to warn of.

    Raises:
        PortShared: a port is in other use.
    """
    found = tuple(uses)
    if any(use.forbids for use in found) and not shared_port:
        raise PortShared([str(use) for use in found if use.forbids])
    return found


def _words(name: str, value: float) -> str:
    return format_rate(value) if name == "rate_bps" else _time(value)


def _time(seconds: float) -> str:
    return format_short_seconds(seconds) if 0 < seconds < 1 else format_seconds(seconds)
