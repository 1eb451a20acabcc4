"""The output of `collie check` as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from collie.advise.change import SettingChange
from collie.advise.check import Advice, Hit, OpenHit
from collie.advise.overlap import is_ordered
from collie.app.checks import Collection
from collie.campaign.single_run import JudgedRun
from collie.report.json.objects import SCHEMA_VERSION, Json, features, plain
from collie.report.quantities import percent, show
from collie.workloads.application import Application, Sizes, Values
from collie.workloads.space import Space
from collie.workloads.units import format_count, format_sizes
from collie.workloads.workload import FIELD_NAMES, Workload, render

Measured = Mapping[int, tuple[JudgedRun, JudgedRun | None]]
"""Runs before and after the advised change, by the position of the hit in the advice."""


def render_advice(advice: Advice, compared: Collection, measured: Measured, remarks: Sequence[str] = ()) -> str:
    """Return the advice on one application."""
    application, left_out = advice.application, compared.unexplained
    of_all = f"of {format_count(len(compared.known), 'anomaly' if left_out else 'known anomaly')}"
    of_all += " with conditions" if left_out else ""
    observed, unknown = ({each.known.id for each in some} for some in (advice.hits, advice.open))
    of_unknown = f"; of {len(unknown)} it is not known" if unknown else ""
    lines = [
        f"{application.id}: {application.title}",
        *(f"  note     {remark}" for remark in remarks),
        f"can hit {len(observed) or 'none'} {of_all}{of_unknown}{_not_compared(left_out)}",
        *(["the cheapest change moves the limits of the application by the fewest steps"] if advice.hits else []),
    ]
    for place, hit in enumerate(advice.hits):
        lines += ["", *_hit(hit, application), *_measured(measured.get(place))]
    for left_open in advice.open:
        lines += ["", *_open(left_open, application)]
    if advice.remedy_undecided is not None:
        lines += ["", f"Changes after which it hits none of them: {_undecided(advice.remedy_undecided)}"]
    elif advice.remedy is None:
        lines += ["", "No changes were found after which it hits none of them."]
    elif len(advice.hits) > 1:
        several = len(application.traffic) > 1
        last = {(change.traffic.name, change.dimension): change for change in advice.remedy}
        lines += ["", f"With all of this it hits none {of_all}:"]
        lines += [
            f"  {change.traffic.name + ': ' if several else ''}{_change(change, application.space)}"
            for change in last.values()
        ]
    return "\n".join(lines)


def _not_compared(unexplained: Sequence[str]) -> str:
    if not unexplained:
        return ""
    one = len(unexplained) == 1
    count = f"{len(unexplained)} without conditions {'was' if one else 'were'} not compared"
    return f"; {count}: {', '.join(unexplained)}"


def _open(left_open: OpenHit, application: Application) -> Iterator[str]:
    yield f"{left_open.known.id}  {left_open.known.sentence.rstrip('.')}"
    if len(application.traffic) > 1:
        yield f"  traffic  {left_open.traffic.name}"
    yield f"  hit      {_undecided(left_open.steps)}"


def _undecided(steps: int) -> str:
    return f"not decided: more than {steps:,} combinations of values; narrow the application"


def _hit(hit: Hit, application: Application) -> Iterator[str]:
    space = application.space
    where = f" ({hit.known.subsystem})" if hit.known.subsystem else ""
    yield f"{hit.known.id}{where}  {hit.known.sentence.rstrip('.')}"
    if len(application.traffic) > 1:
        yield f"  traffic  {hit.traffic.name}"
    reach = [
        f"{_several(name, values, space)} (of {_several(name, hit.traffic.get(name), space, named=False)})"
        for name, values in hit.overlap.reach.items()
    ]
    yield f"  needs    {hit.known.mfs}"
    if reach:
        yield f"  where    {', '.join(reach)}"
    yield f"  example  {{{_fields(hit.overlap.example, space.base)}}}"
    for index, change in enumerate(hit.changes):
        share = f"; gives up {percent(change.share_lost)} of its values" if 0.0 < change.share_lost < 1.0 else ""
        yield f"  {'change' if index == 0 else 'or':9}{_change(change, space)}{share}"
    if hit.undecided is not None:
        yield f"  change   {_undecided(hit.undecided)}"
    elif not hit.changes:
        yield "  change   no single change leaves it without entering another" + (
            "" if hit.pair else ", nor do any two"
        )
    if hit.pair:
        yield f"  both     {' and '.join(_change(change, space) for change in hit.pair)}"
    if hit.known.cure:
        yield f"  cure     outside the application: {hit.known.cure}"


def _measured(runs: tuple[JudgedRun, JudgedRun | None] | None) -> Iterator[str]:
    for label, run in zip(("example", "changed"), runs or (), strict=False):
        if run is not None:
            verdict = run.verdict
            words = "could not be measured" if verdict is None else f"{verdict.outcome}, {verdict.reason}"
            if label == "changed" and verdict is not None and verdict.is_anomalous:
                words += "; so this change alone is not enough here"
            yield f"  measured {label}: {words}"


def _several(name: str, values: Values, space: Space, *, named: bool = True) -> str:
    label = f"{'messages of' if name == 'messages' else name} " if named else ""
    if not is_ordered(space, name):
        return label + " or ".join(show(name, value) for value in values)
    low, high = show(name, values[0]), show(name, values[-1])
    return label + (low if low == high else f"{low} to {high}")


def _change(change: SettingChange, space: Space) -> str:
    return _new(change, space) + ("" if change.has_margin else ", just outside the published threshold")


def _new(change: SettingChange, space: Space) -> str:
    before, after = change.before, change.after
    if isinstance(after, Sizes):
        assert isinstance(before, Sizes)
        if after.only is not None:
            assert before.only is not None
            return f"messages {format_sizes(after.only)} instead of {format_sizes(before.only)}"
        if len(after.values) == len(before.values):
            return f"messages of one size per queue pair (now up to {before.longest} sizes in turn)"
        return "messages of " + _limit("messages", before.values, after.values)
    assert not isinstance(before, Sizes)
    if is_ordered(space, change.dimension):
        return f"{change.dimension} {_limit(change.dimension, before, after)}"
    now = _several(change.dimension, before, space, named=False)
    return f"{change.dimension} {_several(change.dimension, after, space, named=False)} (now {now})"


def _limit(name: str, before: Values, after: Values) -> str:
    low, high = (show(name, value) for value in (before[0], before[-1]))
    if len(before) == 1:
        return f"{show(name, after[0])} instead of {low}"
    if after[0] == before[0]:
        return f"at most {show(name, after[-1])} (now up to {high})"
    if after[-1] == before[-1]:
        return f"at least {show(name, after[0])} (now from {low})"
    return f"{show(name, after[0])} (now {low} to {high})"


def _fields(workload: Workload, base: Workload) -> str:
    named = ("qp_type", "opcode", "messages")
    differing = [name for name in FIELD_NAMES if name in named or workload.get(name) != base.get(name)]
    return ", ".join(f"{name}: {show(name, workload.get(name))}" for name in differing)


def render_checks(against: str, compared: Collection, checks: Sequence[tuple[Advice, Measured, Sequence[str]]]) -> Json:
    """Return the object of `collie check --format json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "against": against,
        "known_anomalies": len(compared.known),
        "not_compared": list(compared.unexplained),
        "checked": [_advice_json(*check) for check in checks],
    }


def _advice_json(advice: Advice, measured: Measured, remarks: Sequence[str]) -> Json:
    application = advice.application
    space = application.space
    return {
        "application": application.id,
        "title": application.title,
        "space": space.name,
        "traffic": [traffic.name for traffic in application.traffic],
        "remarks": list(remarks),
        "hits": [_hit_json(hit, space, measured.get(place)) for place, hit in enumerate(advice.hits)],
        "remedy": None if advice.remedy is None else [_change_json(change, space) for change in advice.remedy],
        "remedy_undecided_after": advice.remedy_undecided,
        "undecided": [
            {"anomaly": each.known.id, "traffic": each.traffic.name, "undecided_after": each.steps}
            for each in advice.open
        ],
    }


def _hit_json(hit: Hit, space: Space, runs: tuple[JudgedRun, JudgedRun | None] | None) -> Json:
    return {
        "anomaly": hit.known.id,
        "subsystem": hit.known.subsystem or None,
        "sentence": hit.known.sentence,
        "features": features(hit.known.mfs),
        "traffic": hit.traffic.name,
        "overlap": {name: _values_json(values, space, name) for name, values in hit.overlap.reach.items()},
        "example": render(hit.overlap.example),
        "changes": [_change_json(change, space) for change in hit.changes],
        "pair": None if hit.pair is None else [_change_json(change, space) for change in hit.pair],
        "changed_example": None if hit.changed is None else render(hit.changed),
        "changes_undecided_after": hit.undecided,
        "cure": hit.known.cure or None,
        "measured": None if runs is None else {"example": _run_json(runs[0]), "changed_example": _run_json(runs[1])},
    }


def _run_json(run: JudgedRun | None) -> Json | None:
    if run is None:
        return None
    return {"verdict": plain(run.verdict), "elapsed_seconds": plain(run.result.elapsed_seconds)}


def _values_json(values: Values | Sizes, space: Space, name: str) -> Json:
    if isinstance(values, Sizes):
        if values.only is not None:
            return {"only": list(values.only)}
        return {**_values_json(values.values, space, name), "max_length": values.longest}
    if is_ordered(space, name):
        return {"least": plain(values[0]), "greatest": plain(values[-1])}
    return {"values": plain(tuple(values))}


def _change_json(change: SettingChange, space: Space) -> Json:
    return {
        "traffic": change.traffic.name,
        "dimension": change.dimension,
        "sentence": _change(change, space),
        "before": _values_json(change.before, space, change.dimension),
        "after": _values_json(change.after, space, change.dimension),
        "steps": change.steps,
        "has_margin": change.has_margin,
        "share_lost_ratio": plain(change.share_lost),
    }
