"""The result of a reproduction as lines. A bundle uses this module, too, so it needs no libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from collie.campaign.reproduce import Reproduced, Reproduction, Trial
from collie.detect.signature import Signature
from collie.inventory.fingerprint import HostDifference
from collie.report.quantities import interval, percent, rate, runs, together
from collie.search.phrases import differences
from collie.workloads.units import format_count

_STYLES = {Reproduced.YES: "bold red", Reproduced.NO: "bold green", Reproduced.INCONCLUSIVE: "bold yellow"}
_NAMED = 5
_SCALE = "against the 95th percentile of healthy runs"

NO_CONTROLS = "no condition of it is known that could be broken: there are no controls"


class TerminalLine(NamedTuple):
    """One line and its style."""

    text: str
    style: str = ""


def trial_lines(
    name: str, reproduction: Reproduction, changed: Sequence[HostDifference] | None = None
) -> Iterator[TerminalLine]:
    """Yield the result of a reproduction. `changed` is None if the original testbed is not on record."""
    symptom = reproduction.symptom.words
    answer = f"reproduced: {reproduction.answer}{_elsewhere(changed or ())}{_but(reproduction)}"
    yield TerminalLine(answer, _STYLES[reproduction.answer])
    yield TerminalLine(f"{name}: {symptom} in {_trial(reproduction.trial, reproduction)}{_share(reproduction)}")
    yield from _set_up(reproduction)
    for verdict in reproduction.trial.verdicts:
        yield TerminalLine(f"    {verdict.outcome}: {verdict.reason}", "dim")
    yield from _how_bad(reproduction.trial)
    yield from _otherwise(reproduction.trial, reproduction)
    yield from _counters(reproduction)
    for control in reproduction.controls:
        value = differences(control.workload, reproduction.trial.workload)
        yield TerminalLine(f"without {control.broken} ({value}): {symptom} in {_trial(control, reproduction)}")
        if reproduction.explains(control) is False:
            text = f"    still shows without {control.broken}: that condition does not explain it"
            yield TerminalLine(text, "bold yellow")
        yield from _otherwise(control, reproduction)
        yield from _how_bad(control)
    if (alone := reproduction.alone) is not None:
        yield TerminalLine(f"on a set-up of its own: {symptom} in {_trial(alone, reproduction)}")
        if reproduction.explains(alone) is False:
            yield TerminalLine(
                "    it shows there, too: it needs no other set-up and no phase before it", "bold yellow"
            )
        yield from _otherwise(alone, reproduction)
        yield from _how_bad(alone)
    for condition in reproduction.uncontrolled:
        yield TerminalLine(f"no value of the space breaks {condition} alone", "bold yellow")
    if reproduction.ended_by:
        yield TerminalLine(f"not all runs were made: {reproduction.ended_by}", "bold yellow")
    yield from _difference_lines(changed)


def _elsewhere(changed: Sequence[HostDifference]) -> str:
    """Return which other subsystem, or real hosts in place of a simulated one, the runs were made on."""
    found = (each for host in changed for each in host.differences if each.field == "subsystem.subsystem")
    if (other := next(found, None)) is None:
        return ""
    if other.b is None:
        return f", on hosts, not on simulated subsystem {other.a}, where it was found"
    if other.a is None:
        return f", on simulated subsystem {other.b}, not on the hosts where it was found"
    return f", on simulated subsystem {other.b}, another one than {other.a}, where it was found"


def _but(reproduction: Reproduction) -> str:
    """Return how the controls contradict, as they must be normal."""
    controls = reproduction.controls
    refuted = sum(reproduction.explains(control) is False for control in controls)
    replaced = sum(reproduction.is_replaced(control) for control in controls)
    doubts = {"it still shows": refuted, "another symptom shows": replaced}
    said = [f"{text} in {count} of {format_count(len(controls), 'control')}" for text, count in doubts.items() if count]
    return f", but {' and '.join(said)}: see below" if said else ""


def _set_up(reproduction: Reproduction) -> Iterator[TerminalLine]:
    if (on := reproduction.on) is not None:
        own = reproduction.trial.workload
        phases = " and then ".join(f"a phase with {differences(each, own)}" for each in on.before)
        after = f"on one set-up, after {phases}" if phases else f"on a set-up for {differences(on.made_for, own)}"
        yield TerminalLine(f"    each run {after}", "dim")


def _difference_lines(changed: Sequence[HostDifference] | None) -> Iterator[TerminalLine]:
    if changed is None:
        yield TerminalLine("what it was found on is not on record, so nothing can be said of what differs", "dim")
        return
    for host in changed:
        if host.differences:
            yield TerminalLine(
                f"not what it was when the anomaly was found ({host.a} then, {host.b} now):", "bold yellow"
            )
            yield from (TerminalLine(f"    {difference}") for difference in host.differences)
    if not any(host.differences for host in changed):
        yield TerminalLine("nothing is known to differ from when it was found", "dim")


def _share(reproduction: Reproduction) -> str:
    share = reproduction.trial.share(reproduction.symptom)
    return "" if share is None else f" ({interval(share)} of its runs, {100 * share.confidence:g}% confidence)"


def _how_bad(trial: Trial) -> Iterator[TerminalLine]:
    said = []
    if trial.rates_bps:
        said.append(f"delivered{together(trial.workload)}: {_middle(trial.rates_bps, rate)}")
    if any(trial.severities):  # errors without a bound have no severity
        said.append(f"severity: {_middle(trial.severities, percent)}")
    if trial.victim_lost_ratios:
        said.append(f"the victim loses {_middle(trial.victim_lost_ratios, percent)} of its throughput alone")
    if said:
        yield TerminalLine(f"    {'; '.join(said)}")


def _middle(values: Sequence[float], words: Callable[[float], str]) -> str:
    """Return the median and the range: `12 Mbit/s (10 Mbit/s to 14 Mbit/s)`."""
    middle, least, most = words(median(values)), words(min(values)), words(max(values))
    return middle if least == most else f"{middle} ({least.removesuffix('%')} to {most})"


def _otherwise(trial: Trial, reproduction: Reproduction) -> Iterator[TerminalLine]:
    others = {symptom: n for symptom, n in trial.symptoms.items() if symptom is not reproduction.symptom}
    if others:
        text = ", ".join(f"{symptom.words} in {count}" for symptom, count in others.items())
        indent = "" if trial is reproduction.trial else "    "
        yield TerminalLine(f"{indent}not the same symptom: {text}", "bold yellow")


def _counters(reproduction: Reproduction) -> Iterator[TerminalLine]:
    at_discovery, now = reproduction.at_discovery, reproduction.signature
    if at_discovery is None:
        yield TerminalLine(
            "too little is on record of which counters it raised when it was found, so they are not compared", "dim"
        )
    if at_discovery is None or now is None:
        return
    match reproduction.same_counters:
        case True:
            yield TerminalLine(f"the same counters are raised as when it was found, {_SCALE}: {_raised(now)}")
        case False:
            others = f"other counters are raised, {_SCALE}: {_raised(now)}" if now.raised else "no counter is raised"
            yield TerminalLine(f"{others}; when it was found: {_raised(at_discovery.signature)}", "bold yellow")
        case None:
            text = "no counter is above what some healthy run of the search reached, now or when it was found"
            yield TerminalLine(f"{text}, so they are not compared", "dim")


def _raised(signature: Signature) -> str:
    return ", ".join(f"{name} x{_factor(2**height)}" for name, height in signature.raised[:_NAMED]) or "none"


def _factor(factor: float) -> str:
    return f"{factor:.2g}" if factor < 10 else f"{factor:,.0f}"


def _trial(trial: Trial, reproduction: Reproduction) -> str:
    count = len(trial.verdicts)
    void = f", inconclusive in {trial.inconclusive}" if trial.inconclusive else ""
    return f"{trial.reproduced(reproduction.symptom)} of {runs(count)}, normal in {trial.normal}{void}"
