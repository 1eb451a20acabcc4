"""The stray rate of a campaign, and how far its findings can be trusted (docs/explanation/trust.md)."""

from __future__ import annotations

from collie.detect.confirm import Confirmation, Reliability, Rule, false_chance, miss_chance, rule
from collie.detect.noise import Noise
from collie.detect.symptom import Verdict

_DECLARED_RUNS = 100
"""Runs that the declared stray rate is worth."""
_CAUTION = 0.97
"""Chance that the stray rate is at most the one for which the next confirmation is made."""
_TYPICAL_SHOW_RATE = 0.8
_QUANTILES = 10
"""Quantiles of the stray rate over which the chance of a false anomaly is averaged, by Gauss-Legendre quadrature."""


class Trust:
    """The stray rate of one campaign, with the rules that follow from it.

    Runs that looked anomalous and did not show again are counted. The rate has a beta distribution that begins with the
    declared rate. A confirmation is made for its upper limit, because a healthy campaign must not depend on luck while
    little is known. The report uses its mean, and the chance of a false anomaly is the mean over the distribution: it
    grows faster than the rate, so that the chance at the mean rate would be too low.
    """

    def __init__(self, policy: Confirmation, noise: Noise) -> None:
        self._policy = policy
        self._noise = noise
        self._runs: dict[Rule, int] = {}
        self._judged = self._dropped = 0
        self._rule: Rule | None = None

    @property
    def rule(self) -> Rule:
        """The rule of the next confirmation."""
        if self._rule is None:
            from scipy.stats import beta  # a second that most commands do not need

            self._rule = rule(self._policy, float(beta.ppf(_CAUTION, self._stray, self._other)))
        return self._rule

    def judged(self, verdict: Verdict) -> None:
        """Count a judged run of the search. An inconclusive one tells nothing of strays."""
        if verdict.is_inconclusive:
            return
        self._runs[self.rule] = self._runs.get(self.rule, 0) + 1
        self._judged += 1
        self._rule = None

    def dropped(self) -> None:
        """Count a suspicion that was not reproduced."""
        self._dropped += 1
        self._rule = None

    @property
    def reliability(self) -> Reliability | None:
        """The reliability of the findings, or None without a judged run."""
        if not self._runs:
            return None
        from numpy.polynomial.legendre import leggauss
        from scipy.stats import beta

        stray = self._stray / (self._stray + self._other)
        places, weights = leggauss(_QUANTILES)
        rates = beta.ppf((places + 1.0) / 2.0, self._stray, self._other)
        chances = [false_chance(rate, self._runs) for rate in rates.tolist()]
        chance = float(weights @ chances) / 2.0
        return Reliability(self._judged, self._dropped, stray, chance, miss_chance(self.rule, _TYPICAL_SHOW_RATE))

    @property
    def _stray(self) -> float:
        return self._noise.stray_rate * _DECLARED_RUNS + self._dropped

    @property
    def _other(self) -> float:
        return (1.0 - self._noise.stray_rate) * _DECLARED_RUNS + max(0, self._judged - self._dropped)
