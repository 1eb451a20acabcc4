"""Which explanations are possible, given every run so far: a sample of the posterior over conjunctions.

A hypothesis is one threshold for each limit (`search.limits`): a box. A run inside it shows the anomaly but for a
disturbance, a run outside does not. The prior says that conditions are few. The posterior has no closed form, as one
healthy run only says that *some* condition is broken; but it can be sampled: every hypothesis is redrawn limit by limit
from the distribution of that limit given its others (Gibbs sampling), all hypotheses at once. After each run those that
did not expect it give way to copies of those that did (a particle filter), so that none has to cross a valley of
unlikely ones to get away.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from collie.search.limits import Limit

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_SIZE = 128
"""Hypotheses in the sample: a chance is known to some 4 %."""
_START_SWEEPS = 20
"""Over which the evidence gains its full weight, so that early draws do not settle where later ones cannot leave."""
_SWEEPS = 3
_SURPRISE = 0.2
"""Mean likelihood, against the best, below which a run was expected by hardly any hypothesis: then more is redrawn."""
_CLIMBS = 4


class Hypotheses:
    """A sample of explanations.

    Args:
        limits: what an explanation may require.
        false_negative_rate: share of runs inside that do not show.
        false_positive_rate: share of runs outside that seem to.
        seed: of the sampling.
        points: what was measured before, shape (runs, limits).
        weights: what each of those runs says, -1 (healthy) to 1 (shows), shape (runs).
    """

    def __init__(
        self,
        limits: Sequence[Limit],
        false_negative_rate: float,
        false_positive_rate: float,
        seed: int,
        points: Floats,
        weights: Floats,
    ) -> None:
        self._limits = limits
        self._rng = np.random.default_rng(seed)
        self._shows = float(np.log((1.0 - false_negative_rate) / false_positive_rate))
        self._healthy = float(np.log((1.0 - false_positive_rate) / false_negative_rate))
        self._chosen = np.zeros((_SIZE, len(limits)), dtype=np.intp)
        self._bars = np.full((_SIZE, len(limits)), -np.inf)
        self._points = points
        self._gains = np.where(weights > 0, self._shows, self._healthy) * weights
        self._sweep([min(1.0, 0.1 + 1.2 * sweep / _START_SWEEPS) for sweep in range(_START_SWEEPS)])

    def learn(self, point: Floats, weight: float) -> None:
        """Take in one more run.

        Args:
            point: where it stands, shape (limits).
            weight: what it says, -1 (healthy) to 1 (shows).
        """
        gain = (self._shows if weight > 0 else self._healthy) * weight
        likelihood = np.exp(gain * self.inside(point[None])[:, 0] - max(gain, 0.0))
        places = (np.arange(_SIZE) + self._rng.random()) / _SIZE
        kept = np.searchsorted(np.cumsum(likelihood) / likelihood.sum(), places).clip(max=_SIZE - 1)
        self._chosen, self._bars = self._chosen[kept], self._bars[kept]
        self._points = np.vstack([self._points, point])
        self._gains = np.append(self._gains, gain)
        self._sweep([1.0] * (_SWEEPS if likelihood.mean() >= _SURPRISE else 4 * _SWEEPS))

    def inside(self, points: Floats) -> Flags:
        """Tell for each hypothesis and workload whether it lies inside.

        Args:
            points: shape (workloads, limits).

        Returns:
            Shape (hypotheses, workloads).
        """
        found = np.ones((_SIZE, len(points)), dtype=bool)
        for column, bars in zip(np.ascontiguousarray(points.T), self._bars.T, strict=True):
            found &= column >= bars[:, None]
        return found

    def best(self) -> tuple[int, ...]:
        """Return the most probable explanation that climbing from the sample finds: an index for each limit."""
        self._sweep([1.0] * _CLIMBS, climb=True)
        prior = sum(limit.log_prior[self._chosen[:, index]] for index, limit in enumerate(self._limits))
        score = prior + self.inside(self._points) @ self._gains
        return tuple(int(index) for index in self._chosen[int(np.argmax(score))])

    def _sweep(self, heats: Sequence[float], *, climb: bool = False) -> None:
        """Redraw every limit of every hypothesis, once for each weight that the evidence is to have.

        With `climb`, take the likeliest value instead of drawing.
        """
        above = [
            column[:, None] >= limit.thresholds for limit, column in zip(self._limits, self._points.T, strict=True)
        ]
        # Whether each run fails each threshold, shape (thresholds, runs): a redrawn condition is looked up there.
        below = [np.ascontiguousarray(~each.T).view(np.int8) for each in above]
        failing = np.stack([rows[chosen] for rows, chosen in zip(below, self._chosen.T, strict=True)])
        failed = failing.sum(axis=0, dtype=np.int8)
        for heat in heats:
            gains = (heat * self._gains).astype(np.float32)[:, None]
            for index in self._rng.permutation(len(self._limits)).tolist():
                limit = self._limits[index]
                others_hold = (failed == failing[index]).astype(np.float32)
                scores = others_hold @ np.where(above[index], gains, np.float32(0.0)) + limit.log_prior
                if not climb:
                    # The largest is a draw by their softmax.
                    scores -= np.log(self._rng.standard_exponential(scores.shape))
                picked = scores.argmax(axis=1)
                self._chosen[:, index] = picked
                self._bars[:, index] = limit.thresholds[picked]
                failed -= failing[index]
                failing[index] = below[index][picked]
                failed += failing[index]
