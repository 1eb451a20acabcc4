"""A sample of the posterior over possible explanations, given every run so far.

A *hypothesis* has one threshold for each limit (`search.limits`) and so is a box. A run inside the box is anomalous
with the show rate, a run outside with the stray rate (`detect.noise`). The prior favours few conditions. The posterior
has no closed form, because a healthy run only shows that *some* condition is broken. Two moves sample it:

1. *Gibbs sampling* redraws one limit of every hypothesis at a time, given its other limits.
2. A *particle filter* replaces hypotheses that a new run contradicts with copies of those that predicted the run.

Invariant. After each `learn` the hypotheses are draws from the posterior of all runs so far, up to sampling error. The
share of hypotheses that contain a workload estimates the chance that it has every condition.

Worked example. A finding in space `nsdi22` has wqe_batch 64 and mtu 1024, everything else plain: 47 limits. The columns
give the share of hypotheses that contain the finding with one value replaced (seed 1).

    after the run               wqe_batch 1   mtu 4096   wqe_batch 16   wqe_batch 32
    the finding                 0.72          0.72       0.90           0.96
    wqe_batch 1 is healthy      0.03          0.75       0.64           0.84
    mtu 4096 reproduces         0.01          1.00       0.73           0.84
    wqe_batch 16 is healthy     0.00          1.00       0.02           0.52

The extraction would next run wqe_batch 32, the value nearest to one half. `best` returns `wqe_batch >= 32`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from collie.search.limits import Limit

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_SIZE = 128
"""Number of hypotheses. The standard error of a chance is then at most 4.4 %."""
_START_SWEEPS = 20
"""Sweeps over which the evidence gains its full weight, so that early draws do not settle in a local optimum."""
_SWEEPS = 3
_SURPRISE = 0.2
"""Mean likelihood, relative to the best, below which a run triggers more sweeps."""
_CLIMBS = 4
_STEP = 2.0**-8


class Hypotheses:
    """A sample of explanations.

    Attributes:
        show_rate: share of the runs inside that are anomalous. It can be set as more becomes known.

    `points` are the coordinates of earlier runs, shape (runs, limits). `weights` are -1 (healthy) to 1 (reproduced),
    and lower where one run stands for several, shape (runs).
    """

    def __init__(
        self, limits: Sequence[Limit], show_rate: float, stray_rate: float, seed: int, points: Floats, weights: Floats
    ) -> None:
        self._limits = limits
        self._rng = np.random.default_rng(seed)
        self._stray_rate = stray_rate
        self.show_rate = show_rate
        self._chosen = np.zeros((_SIZE, len(limits)), dtype=np.intp)
        self._bars = np.full((_SIZE, len(limits)), -np.inf)
        self._points = points
        self._weights = weights
        self._sweep([min(1.0, 0.1 + 1.2 * sweep / _START_SWEEPS) for sweep in range(_START_SWEEPS)])

    def learn(self, point: Floats, weight: float) -> None:
        """Add a run by its coordinates, shape (limits), and its weight."""
        gain = float(self._gains(np.array([weight]))[0])
        likelihood = np.exp(gain * self.inside(point[None])[:, 0] - max(gain, 0.0))
        places = (np.arange(_SIZE) + self._rng.random()) / _SIZE
        kept = np.searchsorted(np.cumsum(likelihood) / likelihood.sum(), places).clip(max=_SIZE - 1)
        self._chosen, self._bars = self._chosen[kept], self._bars[kept]
        self._points = np.vstack([self._points, point])
        self._weights = np.append(self._weights, weight)
        self._sweep([1.0] * (_SWEEPS if likelihood.mean() >= _SURPRISE else 4 * _SWEEPS))

    def inside(self, points: Floats) -> Flags:
        """Return which hypotheses contain which points, as (hypotheses, points). `points` are (points, limits)."""
        found = np.ones((_SIZE, len(points)), dtype=bool)
        for column, bars in zip(np.ascontiguousarray(points.T), self._bars.T, strict=True):
            found &= column >= bars[:, None]
        return found

    def is_healthy_between(self, low: Floats, high: float, place: int) -> bool:
        """Whether a healthy run lies inside `low`, shape (limits), and below `high` in one coordinate."""
        healthy = self._points[self._weights < 0]
        return bool(((healthy >= low).all(axis=1) & (healthy[:, place] < high)).any())

    def information(self, inside: Flags) -> Floats:
        """Return the bits that one run of each point adds about the hypotheses. `inside` is from `inside`."""
        share = inside.mean(axis=0)
        shows = share * self.show_rate + (1.0 - share) * self._stray_rate
        of_noise = share * entropy(np.array(self.show_rate)) + (1.0 - share) * entropy(np.array(self._stray_rate))
        return np.asarray(entropy(shows) - of_noise)

    def best(self) -> tuple[int, ...]:
        """Return the most probable explanation found by hill climbing: an index for each limit."""
        self._sweep([1.0] * _CLIMBS, climb=True)
        prior = sum(in_steps(limit.log_prior)[self._chosen[:, index]] for index, limit in enumerate(self._limits))
        score = prior + self.inside(self._points) @ self._gains(self._weights)
        return tuple(int(index) for index in self._chosen[int(np.argmax(score))])

    def _gains(self, weights: Floats) -> Floats:
        """Return the logarithmic likelihood ratio of each run, inside against outside."""
        shows = np.log(self.show_rate / self._stray_rate)
        healthy = np.log((1.0 - self._stray_rate) / (1.0 - self.show_rate))
        return in_steps(weights * np.where(weights > 0, shows, healthy))

    def _sweep(self, heats: Sequence[float], *, climb: bool = False) -> None:
        """Redraw every limit of every hypothesis, once for each weight of the evidence.

        With `climb`, take the most probable value instead of drawing.
        """
        above = [
            column[:, None] >= limit.thresholds for limit, column in zip(self._limits, self._points.T, strict=True)
        ]
        # Whether each run fails each threshold, shape (thresholds, runs), to look up redrawn conditions.
        below = [np.ascontiguousarray(~each.T).view(np.int8) for each in above]
        failing = np.stack([rows[chosen] for rows, chosen in zip(below, self._chosen.T, strict=True)])
        failed = failing.sum(axis=0, dtype=np.int8)
        evidence = self._gains(self._weights)
        for heat in heats:
            gains = in_steps(heat * evidence).astype(np.float32)[:, None]
            for index in self._rng.permutation(len(self._limits)).tolist():
                limit = self._limits[index]
                others_hold = (failed == failing[index]).astype(np.float32)
                scores = others_hold @ np.where(above[index], gains, np.float32(0.0)) + limit.log_prior
                if not climb:
                    # The Gumbel trick: the maximum is a draw from the softmax.
                    scores -= np.log(self._rng.standard_exponential(scores.shape))
                picked = scores.argmax(axis=1)
                self._chosen[:, index] = picked
                self._bars[:, index] = limit.thresholds[picked]
                failed -= failing[index]
                failing[index] = below[index][picked]
                failed += failing[index]


def in_steps(values: Floats) -> Floats:
    """Round logarithmic likelihood ratios to 1/256, so that float32 adds them without an error up to a sum of 65,536.

    A linear algebra library adds in an order that depends on the CPU. If sums rounded, a seed would give another
    campaign on another machine.
    """
    return np.asarray(np.round(values / _STEP) * _STEP)


def entropy(chances: Floats) -> Floats:
    """Return the entropy of events with these chances, in bits."""
    yes = chances.clip(1e-9, 1.0 - 1e-9)
    return np.asarray(-yes * np.log2(yes) - (1.0 - yes) * np.log2(1.0 - yes))
