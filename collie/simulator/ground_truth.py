"""Ground truth of a simulated subsystem: its map, the check of its file, the score of a search.

Only `wiring` and tests can import this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collie.app.severity_map import MapBase, SeverityMap
from collie.campaign.summary import Score
from collie.search.anomaly import Anomaly
from collie.simulator.audit import audit
from collie.simulator.claims import Audit
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.survey import survey
from collie.simulator.truth import Truth
from collie.workloads.space import Space
from collie.workloads.workload import Workload


class GroundTruth:
    """Ground truth of one subsystem with some settings changed. It is an `app.severity_map.MappedSubsystem`.

    Raises:
        UsageError: there is no such setting or value.
    """

    def __init__(self, file: SubsystemFile, settings: Mapping[str, str]) -> None:
        self._file = file
        self._subsystem = file.with_settings(settings) if settings else file

    @property
    def name(self) -> str:
        """Name of the subsystem."""
        return self._subsystem.name

    @property
    def witnesses(self) -> Mapping[str, Workload]:
        """A workload of each planted mechanism, by the mechanism's name."""
        return {witness.mechanism.value: witness.trigger for witness in self._subsystem.witnesses}

    def severity_map(self, space: Space, base: MapBase, axes: tuple[str, str]) -> SeverityMap:
        """Judge, without noise, every workload over two dimensions.

        Raises:
            UsageError: a dimension is unknown, given twice or fixed, y has no order, or no point can run.
        """
        return survey(self._subsystem, self._changed_settings(), space, base, axes)

    def audit(self, space: Space, points: int) -> Audit:
        """Check every claim of the file, and survey `points` random workloads.

        Raises:
            UsageError: the subsystem supports no workload of the space.
        """
        return audit(self._subsystem, space, points)

    def score(self, space: Space, anomalies: Sequence[Anomaly]) -> Score:
        """Compare the anomalies of a search with the planted ones."""
        return Truth(self._subsystem, space).score(anomalies)

    def _changed_settings(self) -> Mapping[str, str]:
        return {
            name: setting.value
            for name, setting in self._subsystem.settings.items()
            if setting.value != self._file.settings[name].value
        }
