"""Planted conjunctions, and extractions on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

import numpy as np

from collie.content.spaces import load_space
from collie.detect.noise import Noise
from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.search.extract import Extracted, extract
from collie.search.fresh_runs import Probes, Surroundings, costs_one_run
from collie.search.hypotheses import Hypotheses
from collie.search.limits import CandidateLimits
from collie.search.recipe import Extraction
from collie.workloads.dimension import Choice, Ordered
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.space import Space
from collie.workloads.workload import Workload

SPACE = load_space("nsdi22")
SHOWS = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.2, "b")
NORMAL = Verdict(Outcome.NORMAL, "fine")
Answer = Callable[[Workload], Verdict]
DIMENSIONS = [dimension for dimension in SPACE.dimensions.values() if isinstance(dimension, Ordered | Choice)]


def never(_workload: Workload) -> bool:
    return False


def run(
    workload: Workload,
    answer: Callable[[Workload], Verdict | None],
    policy: Extraction | None = None,
    known: Callable[[Workload], bool] = never,
    measured: Sequence[tuple[Workload, Verdict]] = (),
    cost: Callable[[Workload], float] = costs_one_run,
    noise: Noise = Noise(),  # noqa: B008 - frozen
    space: Space = SPACE,
    symptom: Symptom = Symptom.PAUSE,
) -> tuple[Extracted, list[Workload]]:
    """Extract the set of a finding. Return the result and the probes."""
    around = Surroundings(space, noise, known, lambda: measured, cost)
    probes = extract(workload, symptom, policy or Extraction(), around)
    asked: list[Workload] = []
    try:
        probe = next(probes)
        while True:
            asked.append(probe)
            probe = probes.send(answer(probe))
    except StopIteration as stop:
        return stop.value, asked


def answered(probes: Probes[None], answer: Answer) -> list[Workload]:
    """Answer the probes, and return them."""
    asked: list[Workload] = []
    with suppress(StopIteration):
        asked.append(next(probes))
        while True:
            asked.append(probes.send(answer(asked[-1])))
    return asked


def planted(mfs: Mfs) -> Callable[[Workload], Verdict]:
    return lambda workload: SHOWS if mfs.covers(workload) else NORMAL


def planted_at(seed: int) -> tuple[Mfs, Workload]:
    """A conjunction over one to four dimensions that some workload breaks, and a workload that satisfies it."""
    rng = Random(seed)
    while True:
        workload = SPACE.sample(rng)
        conditions = []
        for dimension in rng.sample(DIMENSIONS, rng.randint(1, 4)):
            value, op = workload.get(dimension.name), Op.EQUAL
            if isinstance(dimension, Ordered):
                op = rng.choice([Op.AT_LEAST, Op.AT_MOST])
                value = rng.choice([step for step in dimension.ladder if Condition("", op, step).admits(value)])
            conditions.append(Condition(dimension.name, op, value))
        mfs = Mfs(tuple(conditions))
        if not all(mfs.covers(SPACE.sample(rng)) for _ in range(20)):
            return mfs, workload


def hypotheses(finding: Workload, mfs: Mfs, tried: list[Workload]) -> tuple[CandidateLimits, Hypotheses]:
    limits = CandidateLimits(SPACE, finding)
    workloads = [finding, *tried]
    weights = np.array([1.0 if mfs.covers(workload) else -1.0 for workload in workloads])
    points = np.array([limits.coordinates(workload) for workload in workloads])
    return limits, Hypotheses(limits.limits, 0.99, 0.01, 7, points, weights)
