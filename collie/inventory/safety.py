"""A site's limits on Collie's traffic. `campaign.safety` enforces them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SafetyLimits:
    """Limits of a site or a campaign. None is no limit.

    Attributes:
        pause_per_second: seconds of pause that a host may send within any second.
        pause_per_campaign: seconds of pause that all hosts together may send over all runs.
        rate_bps: payload bits/s that a host may receive, and may send.
    """

    pause_per_second: float | None = None
    pause_per_campaign: float | None = None
    rate_bps: float | None = None

    @property
    def unlimited(self) -> bool:
        """Whether nothing is limited."""
        return self == SafetyLimits()


REAL_HOSTS = SafetyLimits(pause_per_second=0.2, pause_per_campaign=120.0)
"""Default of a hosts file. A switch's PFC watchdog treats 200 ms of unbroken pause as a storm. Two minutes suffice to
confirm and explain a few anomalies."""
