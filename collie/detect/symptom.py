"""Symptoms and verdicts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn

from collie.detect.signature import Signature
from collie.workloads.units import format_share


class Symptom(StrEnum):
    """The visible effect of an anomaly. When a run shows several, the first in this order is reported."""

    WRONG_PAYLOAD = "wrong_payload"
    """Received bytes differ from those sent."""
    PAUSE = "pause"
    """A host sends PFC pause frames on an uncongested network."""
    COMPLETION_ERRORS = "completion_errors"
    """Work requests complete with an error although nothing is wrong with them."""
    RNR_STORM = "rnr_storm"
    """The responder rejects messages repeatedly because no receive is posted."""
    LOSS = "loss"
    """A host without pause counters discards packets or sees them out of sequence."""
    RETRANSMISSION = "retransmission"
    """A host receives packets again although nothing was lost."""
    UNFAIRNESS = "unfairness"
    """One queue pair among many equal ones makes hardly any progress."""
    STALL = "stall"
    """Nothing completes for a long time although requests are outstanding."""
    LOW_THROUGHPUT = "low_throughput"
    """Both bits/s and packets/s stay under the rate that the same bytes in flight otherwise achieve."""
    LATENCY = "latency"
    """Messages of an offered load take much longer than those of the plain sibling at the same load."""
    VICTIM_LOSS = "victim_loss"
    """A plain flow of another tenant loses more beside the workload than beside plain traffic of the same load."""
    VICTIM_LATENCY = "victim_latency"
    """Messages of such a flow take much longer beside the workload than beside plain traffic of the same load."""

    @property
    def words(self) -> str:
        """The symptom as text for people: `low throughput`."""
        return self.replace("_", " ")

    def is_related(self, other: Symptom | None) -> bool:
        """Whether one cause can produce either symptom, from run to run.

        A device that retransmits too early loses throughput, packets or whole queue pairs. A paused sender also loses
        throughput, but pause is reported then. Wrong payload is related to none: late payload is correct. A workload
        that only makes a victim wait takes nothing from it, so the two symptoms of a victim have conditions of their
        own.
        """
        return other is self or (other is not None and _ALONE.isdisjoint((self, other)))

    @property
    def is_of_victim(self) -> bool:
        """Whether the traffic of another tenant shows it."""
        return self in _OF_VICTIM

    @property
    def is_of_latency(self) -> bool:
        """Whether messages are late."""
        return self in _OF_LATENCY

    @property
    def is_of_rate(self) -> bool:
        """Whether its severity is the share of a rate that is missing."""
        return self in _OF_RATE

    @property
    def is_relative(self) -> bool:
        """Whether the plain sibling's readings decide."""
        return self in _RELATIVE

    def is_looked_for_before(self, other: Symptom) -> bool:
        """Whether a run with the other symptom was checked for this symptom first, and found free of it."""
        order = list(Symptom)
        return order.index(self) < order.index(other)


_OF_RATE = frozenset({Symptom.PAUSE, Symptom.LOW_THROUGHPUT})
_OF_VICTIM = frozenset({Symptom.VICTIM_LOSS, Symptom.VICTIM_LATENCY})
_ALONE = frozenset({Symptom.WRONG_PAYLOAD, Symptom.PAUSE}) | _OF_VICTIM
_OF_LATENCY = frozenset({Symptom.LATENCY, Symptom.VICTIM_LATENCY})
_RELATIVE = frozenset({Symptom.LOW_THROUGHPUT, Symptom.LATENCY}) | _OF_VICTIM


class Outcome(StrEnum):
    """The three possible outcomes of a run."""

    NORMAL = "normal"
    ANOMALOUS = "anomalous"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Received:
    """What a host received: payload bits/s and packets/s, both above 0."""

    bps: float
    pps: float

    @property
    def is_of_small_packets(self) -> bool:
        """Whether only a limit of packets/s can be told from it, because so few bits/s are no limit."""
        return self.bps < 8 * _SMALL_PACKET_BYTES * self.pps

    def shares_limit_with(self, other: Received, factor: float) -> bool:
        """Whether the limit that holds up another host can explain what this one receives.

        It limits packets/s or bits/s, and both hosts reach it within a factor. Or this one is slower in neither.
        """
        packets, bits = self.pps / other.pps, self.bps / other.bps
        if other.is_of_small_packets:
            return packets >= 1.0 / factor
        alike = any(1.0 / factor <= ratio <= factor for ratio in (packets, bits))
        return alike or min(packets, bits) >= 1.0

    def times_slower_than(self, other: Received) -> float:
        """Return the factor up to which this host does not keep up with another one, at least 1."""
        ratios = [other.pps / self.pps]
        if not other.is_of_small_packets:
            ratios.append(other.bps / self.bps)
        return min((ratio for ratio in ratios if ratio > 1.0), default=1.0)

    def slower_by(self, factor: float) -> Received:
        """Return both rates divided by a factor."""
        return Received(self.bps / factor, self.pps / factor)


_SMALL_PACKET_BYTES = 1024
BARELY_LATE = 1.2
"""Margin that errors can reach: few messages decide a tail, and all runs share the error of the plain sibling's."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of a measurement. It has no truth value, because `if verdict` would merge two of three outcomes.

    Attributes:
        severity: max(pause ratio, 1 - delivered / bound), 0..1, or 0 unless anomalous.
        host: the host with the symptom.
        reason: one sentence with the figures, among them the severity.
        margin: deciding reading over its threshold, 1 when a disturbance can have contributed, 0 unless anomalous.
        signature: the raised counters, or None without a comparison.
        bound_bps: throughput of one port that was expected (`bounds.host_bounds`), or None if nothing was.
        received: by the host with the symptom, if what it lacks accounts for the severity. None otherwise.
    """

    outcome: Outcome
    reason: str
    symptom: Symptom | None = None
    severity: float = 0.0
    host: str | None = None
    margin: float = 0.0
    signature: Signature | None = field(default=None, compare=False)
    bound_bps: float | None = None
    received: Received | None = field(default=None, compare=False)

    def __bool__(self) -> NoReturn:
        raise TypeError("a verdict has three values; compare its outcome")

    @property
    def figure(self) -> str:
        """The severity in words, see `severity_in_words`."""
        assert self.symptom is not None, "only an anomalous verdict has a severity"
        return severity_in_words(self.symptom, self.severity, self.reason)

    @property
    def is_anomalous(self) -> bool:
        """Whether the outcome is anomalous."""
        return self.outcome is Outcome.ANOMALOUS

    @property
    def is_normal(self) -> bool:
        """Whether the outcome is normal."""
        return self.outcome is Outcome.NORMAL

    def is_free_of(self, symptom: Symptom) -> bool:
        """Whether the run lacks a symptom: it was normal, or that was looked for before the one that it shows."""
        return self.is_normal or (self.symptom is not None and symptom.is_looked_for_before(self.symptom))

    @property
    def is_barely_late(self) -> bool:
        """Whether messages are so little beyond the thresholds that the errors of two tails can carry them there."""
        return self.symptom is not None and self.symptom.is_of_latency and self.margin < BARELY_LATE

    @property
    def is_inconclusive(self) -> bool:
        """Whether the outcome is inconclusive."""
        return self.outcome is Outcome.INCONCLUSIVE


def inconclusive(reason: str) -> Verdict:
    """Return an inconclusive verdict."""
    return Verdict(Outcome.INCONCLUSIVE, reason)


def throughput_is_missing(share: float, source: str = "plain sibling") -> str:
    """Return the words of a throughput deficit: `64% of the throughput is missing`, as the plain sibling has it.

    A `source` of bounds that the plain sibling can stay below is named: `throughput is 64% below the specification`.
    """
    if source in _CEILINGS:
        return f"throughput is {_below(share, source)}"
    return f"{format_share(share)} of the throughput is missing"


def _below(share: float, source: str) -> str:
    return f"{format_share(share)} below the {source}"


def severity_in_words(symptom: Symptom, severity: float, reason: str) -> str:
    """Name what a severity is a share of, as `reason` does: `9.9% of the time`.

    A severity that the reason does not state stays `severity 9.9%`.
    """
    if lost := _lost_throughput(symptom, severity, reason):
        return lost
    stated = _stated(symptom, severity)
    return stated if stated and stated in reason else _unnamed(severity)


def severity_is_of(symptom: Symptom, severity: float, reason: str) -> Symptom:
    """Return the symptom whose figure a severity is: a paused host may be worse off by the throughput that it lacks."""
    return Symptom.LOW_THROUGHPUT if _lost_throughput(symptom, severity, reason) else symptom


def _lost_throughput(symptom: Symptom, severity: float, reason: str) -> str:
    """Return the severity in words if it is a share of the throughput, else an empty text."""
    missing = throughput_is_missing(severity)
    if symptom is Symptom.LOW_THROUGHPUT or missing in reason:
        return missing
    return next((text for source in _CEILINGS if (text := _below(severity, source)) in reason), "")


def severity_in_brief(symptom: Symptom, severity: float, reason: str) -> str:
    """Return `severity_in_words` for a column: `9.9% of time`, or `68% missing` of the throughput by any bound."""
    words, share = severity_in_words(symptom, severity, reason), format_share(severity)
    if words == _unnamed(severity):
        return share if severity else f"{share} missing"
    return f"{share} {_BRIEF[symptom]}" if words == _stated(symptom, severity) else f"{share} missing"


def own_figure(symptom: Symptom, reason: str) -> str:
    """Return the symptom's own figure in a reason, which need not be the severity, or an empty string."""
    words = _PLACEHOLDER.sub(_SHARE.pattern, _FIGURES.get(symptom, ""))
    found = re.search(words, reason) if words else None
    return found.group() if found else ""


def is_of_one_kind(one: str, other: str) -> bool:
    """Whether two figures in words are shares of the same, so that they can be compared."""
    return _SHARE.sub("", one) == _SHARE.sub("", other)


def _stated(symptom: Symptom, severity: float) -> str:
    return _FIGURES.get(symptom, "").format(severity, share=format_share(severity))


def _unnamed(severity: float) -> str:
    """Return the words of a severity that the reason does not state. Errors alone can cost no throughput."""
    return f"severity {format_share(severity)}" if severity else "no throughput is missing"


_SHARE = re.compile(r"(?:over )?[0-9.]+%")
_PLACEHOLDER = re.compile(r"\{[^}]*\}")

_CEILINGS = ("specification", "offered load", "calibration")
"""Sources of bounds that cost no run (`bounds.Bound`)."""

_FIGURES = {
    Symptom.PAUSE: "{:.1%} of the time",
    Symptom.RNR_STORM: "{:.0%} of the messages",
    Symptom.LOSS: "{:.2%} of its packets",
    Symptom.RETRANSMISSION: "{:.1%} of the packets",
    Symptom.UNFAIRNESS: "{:.1%} less than the mean",
    Symptom.STALL: "{share} of the window",
    Symptom.LATENCY: "waiting is {share} of the latency",
    Symptom.VICTIM_LOSS: "{share} of its throughput",
    Symptom.VICTIM_LATENCY: "waiting is {share} of the latency",
}
"""The figure of each symptom in the words of its reason."""

_BRIEF = {
    Symptom.PAUSE: "of time",
    Symptom.RNR_STORM: "of messages",
    Symptom.LOSS: "of packets",
    Symptom.RETRANSMISSION: "of packets",
    Symptom.UNFAIRNESS: "below mean",
    Symptom.STALL: "of window",
    Symptom.LATENCY: "waiting",
    Symptom.VICTIM_LOSS: "lost",
    Symptom.VICTIM_LATENCY: "waiting",
}
"""What the figure of each symptom is a share of, in a column."""
