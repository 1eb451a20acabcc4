"""The check of a subsystem file's claims against ground truth.

Only `wiring` and tests can import this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collie.detect.thresholds import Thresholds
from collie.simulator.bottleneck import bottleneck
from collie.simulator.claims import Audit, CureCheck, PlainCheck, ShownMechanism, Survey, WitnessCheck
from collie.simulator.draws import draw
from collie.simulator.mechanism import Mechanism
from collie.simulator.model import evaluate
from collie.simulator.specification import specification
from collie.simulator.subsystem import SubsystemFile, Witness
from collie.simulator.truth import Truth, planted
from collie.workloads.space import Space
from collie.workloads.units import format_rate
from collie.workloads.workload import Opcode, QpType, Workload, render

_AMPLE_PACKETS_PER_SECOND = 1e12


def audit(subsystem: SubsystemFile, space: Space, points: int) -> Audit:
    """Check every claim of a subsystem file, and survey `points` random workloads.

    Raises:
        UsageError: the subsystem supports no workload of the space.
    """
    truth = Truth(subsystem, space)
    witnesses = tuple(_witness(truth, space, witness) for witness in subsystem.witnesses)
    survey = _survey(truth, subsystem, space, points)
    return Audit(
        witnesses,
        tuple(_cures(truth, subsystem, space)),
        _plain_traffic(truth, subsystem, space),
        tuple(shown for shown in survey.mechanisms if shown.credited and not shown.planted),
        survey,
    )


def _witness(truth: Truth, space: Space, witness: Witness) -> WitnessCheck:
    mechanism, trigger = witness.mechanism, witness.trigger
    if obstacle := truth.obstacle(trigger):
        return WitnessCheck(mechanism, problem=f"cannot run: {obstacle}")
    if outside := truth.outside(trigger):
        return WitnessCheck(mechanism, outside=f"not in space {space.name}: {outside}")
    verdict = truth.verdict(trigger, witness.on)
    credited = truth.mechanism(trigger, witness.on)
    problem = None
    if not verdict.is_anomalous:
        problem = f"is normal: {verdict.reason}"
    elif credited is not mechanism:
        problem = f"is credited to {credited or 'no mechanism'}: {verdict.reason}"
    elif witness.on is not None and truth.mechanism(trigger) is mechanism:
        problem = "shows without the workloads before it"
    return WitnessCheck(mechanism, verdict.symptom, verdict.severity, credited, problem)


def _cures(truth: Truth, subsystem: SubsystemFile, space: Space) -> Iterator[CureCheck]:
    witnesses = {witness.mechanism: witness for witness in subsystem.witnesses}
    for name, setting in subsystem.settings.items():
        if not setting.cures:
            continue
        truths = {option: Truth(subsystem.with_settings({name: option}), space) for option in setting.options}
        for mechanism in setting.cures:
            witness = witnesses.get(mechanism)
            if witness is None:
                remedy = f"take it out of settings.{name}.cures, or add a witness"
                yield CureCheck(name, mechanism, (), planted=False, problem=f"it has no witness: {remedy}")
            elif truth.outside(witness.trigger):
                outside = f"its witness is not in space {space.name}"
                yield CureCheck(name, mechanism, (), planted=True, outside=outside)
            elif not truth.verdict(witness.trigger, witness.on).is_anomalous:
                vacuous = "its witness is not anomalous with the options in force, so there is nothing to cure"
                yield CureCheck(name, mechanism, (), planted=True, vacuous=vacuous)
            else:
                trigger, on = witness.trigger, witness.on
                options = tuple(option for option, changed in truths.items() if changed.verdict(trigger, on).is_normal)
                problem = None if options else "its witness stays anomalous with every option"
                yield CureCheck(name, mechanism, options, planted=True, problem=problem)


def _plain_traffic(truth: Truth, subsystem: SubsystemFile, space: Space) -> tuple[PlainCheck, ...]:
    """Check the plain workload of each transport and opcode of the space.

    Slow plain traffic can be intended. It is a problem only if no plain traffic comes near the data sheet.
    """
    wanted = [space.nearest({"qp_type": kind, "opcode": opcode}) for kind, opcode in product(QpType, Opcode)]
    runnable = dict.fromkeys(each for each in wanted if each is not None and truth.obstacle(each) is None)
    checks = [_plain(truth, subsystem, workload) for workload in runnable]
    best = min(checks, key=lambda check: check.shortfall, default=None)
    if best is None or best.shortfall <= Thresholds().throughput_deficit:
        return tuple(checks)
    return tuple(replace(each, note=None, problem=each.note) if each is best else each for each in checks)


def _plain(truth: Truth, subsystem: SubsystemFile, workload: Workload) -> PlainCheck:
    hardware = subsystem.hardware
    state = evaluate(hardware, workload)
    # The NIC's own packet rate must not excuse a slow port, so it does not limit this bound.
    port = hardware.with_part("engine", unit_packets_per_second=_AMPLE_PACKETS_PER_SECOND)
    delivered, allowed = max(state.delivered_bps()), specification(port, workload).bps
    pause, loss = max(state.pause_ratio()), max(state.loss_ratio())
    check = PlainCheck(workload.qp_type, workload.opcode, delivered, allowed, pause, loss, bottleneck(state), note=None)
    if check.shortfall <= Thresholds().throughput_deficit and truth.verdict(workload).is_normal:
        return check
    signs = [f", pauses {pause:.1%} of the time"] * (pause > 0) + [f", loses {loss:.1%} of the packets"] * (loss > 0)
    carried = f"{delivered / allowed:.0%} of the {format_rate(allowed)} that line and PCIe can carry"
    note = f"delivers {carried}{''.join(signs)}. Limited by: {check.limited_by}"
    return replace(check, note=note)


def _survey(truth: Truth, subsystem: SubsystemFile, space: Space, points: int) -> Survey:
    workloads = draw(subsystem.hardware, space, points)
    severities, costs, credited = truth.credits(workloads)
    own = {name: np.array([each is name for each in credited], dtype=bool) for name in Mechanism}
    # A workload with several mechanisms can stay anomalous when one is cured. As no severity exceeds 1, it ranks last.
    shared = (costs > 0).sum(axis=0) > 1
    clarity = dict(zip(Mechanism, costs - shared, strict=True))
    clearest = {
        name: int(np.where(own[name], clarity[name], -np.inf).argmax()) for name in Mechanism if own[name].any()
    }
    examples = _plainest(truth, space, {name: workloads[index] for name, index in clearest.items()})
    found = [
        ShownMechanism(
            mechanism,
            shows=_share(own[mechanism] | (alone > 0)),
            credited=_share(own[mechanism]),
            median_severity=float(np.median(severities[own[mechanism]])) if mechanism in examples else 0.0,
            planted=mechanism in planted(subsystem),
            example=_stated(examples[mechanism]) if mechanism in examples else None,
        )
        for mechanism, alone in zip(Mechanism, costs, strict=True)
    ]
    shown = sorted((each for each in found if each.shows), key=lambda each: -each.credited)
    anomalous, explained = severities > 0, np.logical_or.reduce(list(own.values()))
    return Survey(len(workloads), _share(anomalous), _share(anomalous & ~explained), tuple(shown))


def _share(flags: NDArray[np.bool_]) -> float:
    return float(flags.mean()) if flags.size else 0.0


def _plainest(truth: Truth, space: Space, examples: Mapping[Mechanism, Workload]) -> dict[Mechanism, Workload]:
    """Make values plain, as long as each workload still shows its mechanism and shows no further mechanism.

    A dimension is changed in all workloads at once, because the model judges many nearly as fast as one.
    """
    found = dict(examples)
    causes = dict(zip(found, truth.credits(list(found.values())).costs.T > 0, strict=True))
    for name in space.dimensions:
        tried = {mechanism: each.with_(**{name: space.base.get(name)}) for mechanism, each in found.items()}
        tried = {
            mechanism: each for mechanism, each in tried.items() if each != found[mechanism] and space.allows(each)
        }
        _, costs, credited = truth.credits(list(tried.values()))
        for (mechanism, workload), shown, best in zip(tried.items(), costs.T > 0, credited, strict=True):
            if best is mechanism and not (shown & ~causes[mechanism]).any():
                found[mechanism], causes[mechanism] = workload, shown
    return found


def _stated(workload: Workload) -> Mapping[str, Any]:
    """Return the fields that a witness states for a workload: those that are not default."""
    default = render(Workload())
    return {name: value for name, value in render(workload).items() if value != default[name]}
