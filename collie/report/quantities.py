"""Quantities in words, the same in every report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from collie.campaign.summary import NotConfirmed
from collie.detect.interval import Interval
from collie.detect.measurement import Latency, Victim
from collie.ports import CampaignHeader
from collie.workloads.plan import sinks
from collie.workloads.units import (
    format_count,
    format_field,
    format_number,
    format_rate,
    format_ratio,
    format_share,
    format_short_seconds,
)
from collie.workloads.workload import Direction, Workload

_NO_EVENT = 1e-9
"""Reading below which a counter did not move. A simulated counter may compute to a residue such as 1e-15."""

show = format_field
"""Formats a value of a dimension: `64 KiB`, `[SEND, READ]`, `true`."""

_NOT_CONFIRMED = {
    NotConfirmed.ABSENT: "healthy",
    NotConfirmed.UNTRIED: "beyond what can run",
    NotConfirmed.SEEN_ONCE: "not confirmed",
}


def known_elsewhere(not_confirmed: Mapping[str, NotConfirmed]) -> Iterator[str]:
    """Yield sentences that name the known anomalies of another testbed that this one did not confirm."""
    for why, words in _NOT_CONFIRMED.items():
        if names := [name for name, reason in not_confirmed.items() if reason is why]:
            yield f"Known elsewhere and {words} here: {', '.join(names)}."


def rate(bits_per_second: float | None) -> str:
    """Format a rate in bits/s."""
    if bits_per_second is None:
        return "unknown"
    return "unbounded" if math.isinf(bits_per_second) else format_rate(bits_per_second)


def together(workload: Workload) -> str:
    """Name what a sum over receiving hosts adds up, as in `delivered, both directions together`. One host adds none."""
    hosts = len(sinks(workload))
    if hosts == 1:
        return ""
    both = hosts == 2 and workload.direction is Direction.BIDIRECTIONAL
    return f", {'both directions' if both else f'{hosts} hosts'} together"


def packet_rate(packets_per_second: float | None) -> str:
    """Format a rate in packets/s."""
    if packets_per_second is None:
        return "unknown"
    if math.isinf(packets_per_second):
        return "unbounded"
    for factor, unit in ((1.0, "pps"), (1e3, "kpps")):
        if packets_per_second < 999.5 * factor:
            return f"{format_number(packets_per_second / factor, '.3g')} {unit}"
    mega = packets_per_second / 1e6
    return f"{format(mega, '.3g' if mega < 999.5 else '.0f')} Mpps"


def percent(ratio: float | None) -> str:
    """Format a share."""
    if ratio is None:
        return "unknown"
    return format_share(ratio)


def relative(ratio: float | None) -> str:
    """Format a ratio to a reference, which can be above 100%."""
    return "unknown" if ratio is None else format_ratio(ratio)


def interval(found: Interval) -> str:
    """Format an interval of a share: `70 to 100%`."""
    return f"{100 * found.low:.0f} to {100 * found.high:.0f}%"


def latency(measured: Latency) -> str:
    """Format the quantiles that are known: `3.3 us median, 4.2 us for 99%, 9.8 us for 99.9%, by the NIC's clock`."""
    values = {"median": measured.median_seconds, "for 99%": measured.p99_seconds, "for 99.9%": measured.p999_seconds}
    known = [f"{format_short_seconds(value)} {name}" for name, value in values.items() if value is not None]
    if known and measured.clock == "nic":
        known.append("by the NIC's clock")
    return ", ".join(known) or "unknown"


def times(factor: float) -> str:
    """Format a growth factor."""
    if factor >= 1000:
        return "over 1000 times"
    return f"{factor:.2g} times" if factor < 10 else f"{factor:.0f} times"


def victim_kept(victim: Victim) -> str:
    """Format a victim's loss: `keeps 3.1 Mbit/s of 27 Mbit/s alone: 89% lost`. An offered load precedes it."""
    lost = "" if victim.lost_ratio is None else f": {percent(victim.lost_ratio)} lost"
    offered = f"offers {rate(victim.offered_bps)}, " if victim.offered_bps else ""
    return f"{offered}keeps {rate(victim.beside_bps)} of {rate(victim.alone_bps)} alone{lost}"


def runs(count: int) -> str:
    """Format a number of runs."""
    return format_count(count, "run")


def reading(per_second: float | None) -> str:
    """Format a reading of a counter: `0.0951`, `127.3`, `20,072,512,345`."""
    if per_second is None:
        return "unknown"
    if abs(per_second) < _NO_EVENT:
        return "0"
    return format_number(per_second, ",.0f" if abs(per_second) >= 1000 else ".4g")


def effort(run_count: int, set_ups: int) -> str:
    """Format what runs took: `7 runs`, or `412 measurements on 97 set-ups` if runs shared a set-up."""
    if set_ups == run_count:
        return runs(run_count)
    return f"{format_count(run_count, 'measurement')} on {format_count(set_ups, 'set-up')}"


def name_testbed(header: CampaignHeader) -> str:
    """Name a campaign's testbed: `simulated subsystem F (firmware=22.31)`, `hosts a,b; c,d` for two pairs.

    The settings are those of `--set`.
    """
    testbed = header.testbed
    kind = str(testbed.get("kind", "testbed"))
    pairs = testbed.get("pairs")
    of_hosts = "; ".join(map(str, pairs)) if isinstance(pairs, list) else testbed.get("name")
    name = testbed.get("subsystem") or of_hosts
    if name is None:
        return kind
    if kind == "simulated":
        changed = ", ".join(f"{key}={value}" for key, value in _changed_settings(header))
        return f"simulated subsystem {name}" + (f" ({changed})" if changed else "")
    shared = testbed.get("loopback_across_ports")
    across = f" (loopback across ports of {', '.join(shared)})" if isinstance(shared, Mapping) and shared else ""
    return f"{kind} {name}{across}"


def _changed_settings(header: CampaignHeader) -> Iterable[tuple[str, object]]:
    chosen = header.settings.get("testbed")
    settings = chosen.get("settings") if isinstance(chosen, Mapping) else None
    return settings.items() if isinstance(settings, Mapping) else ()
