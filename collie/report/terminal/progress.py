"""The progress of a campaign in words."""

from __future__ import annotations

from collie.campaign.progress import CampaignProgress, HostStanding
from collie.workloads.units import format_count, format_number, format_seconds

_PURPOSES = {
    "search": "searching",
    "sibling": "measuring a plain sibling",
    "confirm": "confirming a suspicion",
    "extract": "explaining an anomaly",
    "claim": "holding an explanation against fresh runs",
    "control": "telling two causes apart",
    "repeat": "repeating a phase on a set-up of its own",
    "history": "running the phases before a suspicion",
    "known": "looking for known anomalies of another testbed",
    "audit": "putting an explanation to the test",
    "calibrate": "calibrating",
    "reproduce": "reproducing",
    "gate": "comparing with the baseline",
}


def doing(standing: CampaignProgress) -> str:
    """Return what the campaign is doing."""
    parts = [_PURPOSES.get(standing.purpose, standing.purpose)]
    if standing.driven:
        best = "" if standing.best is None else f" (best so far {format_number(standing.best, ',.4g')})"
        parts.append(f"driving {standing.driven}{best}")
    if standing.temperature is not None:
        parts.append(f"temperature {standing.temperature:.3g}")
    return ", ".join(part for part in parts if part)


def pace(standing: CampaignProgress) -> str:
    """Return runs per minute, and testbed time compared with wall time."""
    if standing.runs_per_minute is None:
        return ""
    ratio = standing.testbed_seconds_per_second
    virtual = f", testbed time {ratio:,.0f} times as fast as wall time" if standing.virtual_time and ratio else ""
    rate = standing.runs_per_minute
    return f"{format_count(format(rate, ',.0f' if rate >= 10 else '.2g'), 'run')} per minute{virtual}"


def time_left(standing: CampaignProgress) -> str:
    """Return the remaining time."""
    return "" if standing.left_seconds is None else f"about {format_seconds(round(standing.left_seconds))} left"


def found(standing: CampaignProgress, *, ended: bool = False) -> str:
    """Return the number of anomalies, the worst, and the number of unconfirmed suspicions."""
    unconfirmed = format_count(standing.unconfirmed, "suspicion") if standing.unconfirmed else ""
    return "; ".join(filter(None, (_anomalies(standing, ended=ended), unconfirmed and f"{unconfirmed} not confirmed")))


def _anomalies(standing: CampaignProgress, *, ended: bool) -> str:
    if standing.worst is None:
        return "no anomaly" if ended else "no anomaly yet"
    worst = standing.anomalies[standing.worst]
    count = len(standing.anomalies)
    explained = sum(anomaly.explained for anomaly in standing.anomalies.values())
    best = f"the worst {standing.worst}, {worst.symptom.replace('_', ' ')}, {worst.figure}"
    return f"{format_count(count, 'anomaly')}, {explained} explained; {best}"


def hosts(standing: CampaignProgress) -> str:
    """Return the state of each host."""
    aside = {host for pair in standing.pairs_set_aside for host in pair.split(",")}  # in the format of `Pair.name`
    return ", ".join(f"{name} {'set aside' if name in aside else _host(host)}" for name, host in standing.hosts.items())


def set_aside(standing: CampaignProgress) -> str:
    """Return the excluded pairs and the reasons."""
    return "; ".join(f"{pair}: {reason}" for pair, reason in standing.pairs_set_aside.items())


def _host(host: HostStanding) -> str:
    if not host.lost:
        return "up"
    times = "once" if host.lost == 1 else f"{host.lost} times"
    return f"up again (lost {times}, the last time in run {host.lost_in_run})"
