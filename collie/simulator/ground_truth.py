"""Ground truth of a simulated subsystem: its map, the check of its file, the score of a search.

Like `truth`, only `wiring` and tests may import this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from collie.app.severity_map import MapAxis, MapBase, SeverityMap
from collie.search.anomaly import Anomaly
from collie.simulator.description import Audit
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.survey import audit, survey
from collie.simulator.truth import Score, Truth
from collie.workloads.space import Space
from collie.workloads.workload import Workload


class GroundTruth:
    """The truth about one subsystem; an `app.severity_map.MappedSubsystem`.

    Args:
        file: the subsystem as its file describes it.
        settings: changes to its settings.

    Raises:
        UsageError: there is no such setting or value.
    """

    def __init__(self, file: SubsystemFile, settings: Mapping[str, str]) -> None:
        self._file = file
        self._subsystem = file.with_settings(settings) if settings else file

    @property
    def name(self) -> str:
        """Its name."""
        return self._subsystem.name

    @property
    def witnesses(self) -> Mapping[str, Workload]:
        """A workload that shows each planted mechanism, by the mechanism's name."""
        return {witness.mechanism.value: witness.trigger for witness in self._subsystem.witnesses}

    def severity_map(self, space: Space, base: MapBase, axes: tuple[str, str]) -> SeverityMap:
        """Judge, without noise, every workload over two dimensions.

        Raises:
            UsageError: the dimensions and the base do not go together.
        """
        workload = base.workload
        judged = survey(self._subsystem, space, workload, axes, set(base.fixed))
        truth = Truth(self._subsystem, space)
        x, y = (MapAxis(axis.name, axis.values, axis.ordered, axis.position) for axis in (judged.x, judged.y))
        return SeverityMap(
            subsystem=self.name,
            settings=self._changed_settings(),
            space=space.name,
            base=workload,
            base_name=base.name,
            fixed=base.fixed,
            base_severity=float(truth.severities([workload])[0]) if space.allows(workload) else None,
            plain=space.base,
            x=x,
            y=y,
            severity=tuple(tuple(None if isnan(value) else value for value in row) for row in judged.severity.tolist()),
            mechanisms=tuple(tuple(name.value if name else None for name in row) for row in judged.mechanisms),
            followed=judged.followed,
        )

    def audit(self, space: Space) -> Audit:
        """Check every witness and every cure that the file claims."""
        return audit(self._subsystem, space)

    def score(self, space: Space, anomalies: Sequence[Anomaly]) -> Score:
        """Compare the anomalies of a search with the planted ones."""
        return Truth(self._subsystem, space).score(anomalies)

    def _changed_settings(self) -> Mapping[str, str]:
        return {
            name: setting.value
            for name, setting in self._subsystem.settings.items()
            if setting.value != self._file.settings[name].value
        }
