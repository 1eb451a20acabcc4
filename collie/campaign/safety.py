"""Safety on real networks: what stops a run, what ends a campaign, what forbids to begin one.

A `Guard` sees every sample of every run through the testbed's `watch`, so simulator and hosts share it:

1. It orders a stop at the first sample that goes beyond a limit; the run ends with that sample.
2. Pause is what a host *sends*, in seconds: the share of time that a sample shows, times its length.
3. What was used is computed from the samples on record, so a resumed campaign knows what it has used already. What came
   to no record, as of a set-up that failed, counts for the process that saw it.
4. Runs that are under way at once draw on one budget. Where time is virtual each has the budget as it was when it
   began: which thread comes first must not decide what a seed gives. So has one that another process watches.
5. Nothing is limited by a reading that a device does not have: a NIC without pause counters has no pause budget.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace as dataclass_replace
from threading import Lock
from typing import NamedTuple

from collie.detect.measurement import Sample, Watch
from collie.errors import PortShared, UsageError
from collie.inventory.safety import SafetyLimits
from collie.ports import ForeignUse, Measured, RunResult
from collie.workloads.units import format_rate, format_seconds

OPTIONS = {
    "pause_per_second": "--max-pause-per-second",
    "pause_per_campaign": "--max-pause",
    "rate_bps": "--max-rate",
}
"""How the command line calls each limit."""

_SECOND = 1.0
_SAME_MOMENT = 1e-6


class Use(NamedTuple):
    """What one run used of the limits; fields as in `Guard`."""

    pause_seconds: float = 0.0
    tells_pause: bool = False
    stopped: bool = False


class Guard:
    """The safety limits of a campaign, and what has been used of them. Runs may be watched in several threads.

    Args:
        limits: none by default.

    Attributes:
        pause_seconds: that all hosts together have sent, as far as their counters tell.
        tells_pause: whether any sample told of pause at all; where none does, there is no pause budget.
        stopped_runs: that were ended early.
    """

    def __init__(self, limits: SafetyLimits | None = None) -> None:
        self.limits = limits or SafetyLimits()
        self.pause_seconds = 0.0
        self.tells_pause = False
        self.stopped_runs = 0
        self._under_way: list[_RunWatch] = []
        self._accounting = Lock()

    @property
    def spent(self) -> bool:
        """Whether the campaign's pause budget is used up."""
        budget = self.limits.pause_per_campaign
        return budget is not None and self.pause_seconds >= budget

    def watch(self, *, virtual_time: bool = False) -> Watch | None:
        """Return what watches the next run; None when nothing is limited.

        Args:
            virtual_time: the run's time is computed, not waited for.
        """
        if self.limits.unlimited:
            return None
        with self._accounting:
            watch = _RunWatch(self.limits, self.pause_seconds, None if virtual_time else self)
            self._under_way.append(watch)
        return watch

    def use(self, result: RunResult) -> Use:
        """Return what a run has used, as its samples tell; nothing when nothing is limited."""
        if self.limits.unlimited or not isinstance(result, Measured):
            return Use()
        meter = _RunWatch(SafetyLimits(), 0.0)
        for sample in result.measurement.series:
            meter(sample)
        tells = any(sample.values.get("tx_pause_ratio") is not None for sample in result.measurement.series)
        return Use(meter.pause_seconds, tells, result.measurement.stopped is not None)

    def account(self, use: Use, watch: Watch | None = None) -> None:
        """Add what a run has used, whether it ran just now, watched by `watch`, or is taken from the record.

        Its watch has seen what the record does not tell: an agent that was lost on the way, a set-up that failed.
        """
        watched, reported = (watch.pause_seconds, watch.tells_pause) if isinstance(watch, _RunWatch) else (0.0, False)
        with self._accounting:
            self._under_way = [each for each in self._under_way if each is not watch]
            self.pause_seconds += max(use.pause_seconds, watched)
            self.tells_pause |= use.tells_pause or reported
            self.stopped_runs += use.stopped

    def used_beside(self, watch: Watch | None) -> float:
        """Return the pause, in seconds, of all runs but one: those that ended, and those that are under way."""
        with self._accounting:
            return self.pause_seconds + sum(each.pause_seconds for each in self._under_way if each is not watch)

    def sent(self) -> float | None:
        """Return the pause, in seconds, of all runs, those that were broken off included; None if no sample told."""
        tells = self.tells_pause or any(each.tells_pause for each in self._under_way)
        return self.used_beside(None) if tells else None


@dataclass(frozen=True, slots=True)
class SafetyRecord:
    """What a campaign did to the network.

    Attributes:
        limits: that were in force.
        pause_seconds: that all hosts together have sent; None when no counter told, or nothing was limited and
            so nothing counted.
        stopped_runs: that were ended early.
        queue_pairs_left: of ours, by host, when the campaign had ended; None where the host could not be asked.
    """

    limits: SafetyLimits
    pause_seconds: float | None
    stopped_runs: int
    queue_pairs_left: Mapping[str, int | None]

    @property
    def left_behind(self) -> bool:
        """Whether a host is known to have queue pairs of ours left."""
        return any(self.queue_pairs_left.values())

    def __str__(self) -> str:
        left = [f"{'unknown' if n is None else n} on {host}" for host, n in self.queue_pairs_left.items()]
        said = [f"queue pairs left: {', '.join(left)}"] if left else []
        sent = "unknown" if self.pause_seconds is None else format_seconds(self.pause_seconds)
        return "; ".join([*said, f"pause sent: {sent}", f"runs stopped early: {self.stopped_runs}"])


def record_of(guard: Guard, queue_pairs_left: Mapping[str, int | None]) -> SafetyRecord | None:
    """Return what a campaign did to the network; None for a simulation without limits."""
    metered = not guard.limits.unlimited
    if not metered and not queue_pairs_left:
        return None
    return SafetyRecord(guard.limits, guard.sent() if metered else None, guard.stopped_runs, queue_pairs_left)


class _Paused(NamedTuple):
    """Pause that a host sent between two samples; all in seconds."""

    begin: float
    end: float
    seconds: float


class _RunWatch:
    """Watches one run.

    Args:
        limits: of the campaign.
        used_before: pause in seconds that earlier runs have used.
        guard: knows what others use meanwhile; without it nobody does.

    Attributes:
        pause_seconds: that hosts have sent in this run.
        tells_pause: whether any sample told of pause.
    """

    def __init__(self, limits: SafetyLimits, used_before: float, guard: Guard | None = None) -> None:
        self._limits = limits
        self._used_before = used_before
        self._guard = guard
        self.pause_seconds = 0.0
        self.tells_pause = False
        self._last: dict[str, float] = {}
        self._recent: dict[str, deque[_Paused]] = defaultdict(deque)

    def __reduce__(self) -> tuple[type[_RunWatch], tuple[SafetyLimits, float]]:
        """A copy for another process: nobody there knows what others use."""
        return _RunWatch, (self._limits, self._used_before)

    def __call__(self, sample: Sample) -> str | None:
        begin = self._last.get(sample.host, 0.0)
        if begin >= sample.seconds:  # a run that lost its agent is begun again, from zero
            begin = min(0.0, sample.seconds)  # a reading from before the traffic begins tells of nothing that is ours
            self._recent[sample.host].clear()
        self._last[sample.host] = sample.seconds
        self._add(sample, begin)
        return self._storm(sample.host) or self._spent() or self._rate(sample)

    def _add(self, sample: Sample, begin: float) -> None:
        ratio = sample.values.get("tx_pause_ratio")
        self.tells_pause |= ratio is not None
        paused = (ratio or 0.0) * (sample.seconds - begin)
        self.pause_seconds += paused
        recent = self._recent[sample.host]
        recent.append(_Paused(begin, sample.seconds, paused))
        # What began more than a second ago leaves; the newest stays, however long it is.
        while len(recent) > 1 and recent[0].begin < sample.seconds - _SECOND - _SAME_MOMENT:
            recent.popleft()

    def _storm(self, host: str) -> str | None:
        limit, recent = self._limits.pause_per_second, self._recent[host]
        span = max(_SECOND, recent[-1].end - recent[0].begin)
        paused = sum(each.seconds for each in recent) / span
        if limit is None or paused <= limit:
            return None
        return (
            f"host {host} sent pause for {format_seconds(paused)} within a second, more than the "
            f"{format_seconds(limit)} allowed ({OPTIONS['pause_per_second']})"
        )

    def _spent(self) -> str | None:
        limit = self._limits.pause_per_campaign
        if limit is None or self._used() <= limit:
            return None
        return f"pause sent so far exceeds the {format_seconds(limit)} allowed ({OPTIONS['pause_per_campaign']})"

    def _used(self) -> float:
        before = self._used_before if self._guard is None else self._guard.used_beside(self)
        return before + self.pause_seconds

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
    """Return each limit under its option, in words."""
    values = {name: getattr(limits, name) for name in OPTIONS}
    return {OPTIONS[name]: "no limit" if value is None else _words(name, value) for name, value in values.items()}


def tightened(site: SafetyLimits, wanted: SafetyLimits) -> SafetyLimits:
    """Return the limits of a site with those replaced that a user wants tighter.

    Raises:
        UsageError: one is wanted looser than the site allows.
    """
    chosen: dict[str, float | None] = {}
    for name in (field.name for field in fields(SafetyLimits)):
        own, other = getattr(site, name), getattr(wanted, name)
        if own is not None and other is not None and other > own:
            raise UsageError(
                f"{OPTIONS[name]} {_words(name, other)} is more than the {_words(name, own)} that this site allows; "
                "options tighten limits, `safety:` in the hosts file loosens them"
            )
        chosen[name] = own if other is None else other
    return SafetyLimits(**chosen)


def replaced(before: SafetyLimits, wanted: SafetyLimits) -> SafetyLimits:
    """Return what a user wants now, and wanted before where nothing is said now."""
    changes = {name: value for name in OPTIONS if (value := getattr(wanted, name)) is not None}
    return dataclass_replace(before, **changes)


def require_unshared(uses: Iterable[ForeignUse], *, shared_port: bool) -> tuple[ForeignUse, ...]:
    """Refuse to begin on ports that somebody else uses.

    Args:
        uses: what a testbed has seen in an idle window.
        shared_port: go on all the same.

    Returns:
        What to warn of.

    Raises:
        PortShared: somebody else uses a port.
    """
    found = tuple(uses)
    if any(use.forbids for use in found) and not shared_port:
        raise PortShared([str(use) for use in found if use.forbids])
    return found


def _words(name: str, value: float) -> str:
    return format_rate(value) if name == "rate_bps" else format_seconds(value)
