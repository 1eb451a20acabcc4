"""The output of `collie subsystem validate`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from collie.report.json.objects import plain
from collie.report.quantities import percent
from collie.simulator.claims import Audit, CureCheck, ShownMechanism, Survey, WitnessCheck
from collie.workloads.units import format_count


def validation_json(name: str, audit: Audit, *, survey: bool) -> dict[str, Any]:
    """Return the JSON object of one subsystem. `survey` decides whether it contains the survey."""
    document = {"subsystem": name, "valid": audit.problems == 0, **plain(audit)}
    if not survey:
        del document["survey"]
    return document


def validation_lines(name: str, audit: Audit, space: str, *, survey: bool) -> Iterator[str]:
    """Yield the lines of one subsystem: each claim, the survey of random workloads if wanted, and the result."""
    yield f"{name}:"
    width = max((len(check.mechanism) for check in audit.witnesses), default=0)
    for witness in audit.witnesses:
        yield f"  {_word(witness)}  {witness.mechanism:{width}}  {_witness(witness)}"
    for cure in audit.cures:
        yield f"  {_word(cure)}  {_cure(cure)}"
    for check in audit.plain:
        if text := check.problem or check.note:
            yield f"  {'wrong' if check.problem else 'note':5}  plain {check.qp_type} {check.opcode} {text}"
    for unplanned in audit.unplanned:
        yield from _unplanned(unplanned)
    if survey:
        yield from _survey(audit.survey)
    checked = f"{_claims(audit, outside=False)}, {format_count(audit.survey.points, 'random workload')}"
    skipped = f"; not in space {space}: {_claims(audit, outside=True)}" if audit.outside else ""
    yield f"  {f'wrong claims: {audit.problems} in' if audit.problems else 'all claims hold:'} {checked}{skipped}"


def _claims(audit: Audit, *, outside: bool) -> str:
    """Return in words the number of claims that the space can check, or with `outside` of the others."""
    witnesses = sum((check.outside is not None) is outside for check in audit.witnesses)
    cures = sum((check.outside is not None) is outside for check in audit.cures if check.vacuous is None)
    return f"{format_count(witnesses, 'witness')}, {format_count(cures, 'cure')}"


def _word(check: WitnessCheck | CureCheck) -> str:
    if check.problem:
        return "wrong"
    return "skip " if check.outside or (isinstance(check, CureCheck) and check.vacuous) else "ok   "


def _witness(check: WitnessCheck) -> str:
    return check.problem or check.outside or f"{check.symptom}, severity {percent(check.severity)}"


def _cure(check: CureCheck) -> str:
    if text := check.problem or check.outside or check.vacuous:
        return f"{check.setting} cures {check.mechanism}: {text}"
    return f"{check.setting}={' or '.join(check.options)} cures {check.mechanism}"


def _survey(survey: Survey) -> Iterator[str]:
    count = format_count(survey.points, "random workload")
    yield f"  {count}, {percent(survey.anomalous)} anomalous:"
    width = max((len(shown.mechanism) for shown in survey.mechanisms), default=0)
    for shown in survey.mechanisms:
        yield (
            f"    {shown.mechanism:{width}}  shows at {shown.shows:6.2%}, costs most at {shown.credited:6.2%}, "
            f"median severity {percent(shown.median_severity)}, {'has a' if shown.planted else 'no'} witness"
        )
        if shown.planted and shown.example is not None:
            yield f"      for example {_flow(shown.example)}"
    if survey.uncredited:
        yield f"    no mechanism alone  {survey.uncredited:.2%}"


def _unplanned(shown: ShownMechanism) -> Iterator[str]:
    """Yield the problem of a mechanism without a witness, and an entry that the file's `witnesses` can take."""
    assert shown.example is not None  # some workload is credited to it
    yield (
        f"  wrong  {shown.mechanism} has no witness, but costs {shown.credited:.2%} of random workloads most. "
        "Mend the quantity, or add:"
    )
    yield f"    - mechanism: {shown.mechanism}"
    yield "      title: effect on the traffic"
    yield f"      workload: {_flow(shown.example)}"


def _flow(workload: Mapping[str, Any]) -> str:
    """Return a mapping of plain values on one line of YAML."""
    shown = (value if isinstance(value, str) else json.dumps(value) for value in workload.values())
    return f"{{{', '.join(f'{name}: {value}' for name, value in zip(workload, shown, strict=True))}}}"
