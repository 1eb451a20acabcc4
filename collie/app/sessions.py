"""Measurement and calibration with single workloads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from collie.app.adapters import Adapters
from collie.app.inputs import limits_of, narrowed_space_of, recipe_of, require_victim
from collie.app.testbeds import (
    calibration_name,
    kept_calibration,
    open_testbed,
    require_idle_ports,
    require_possible_victim,
    unlike,
)
from collie.campaign.calibrate import DENSE_SIZES
from collie.campaign.choice import SearchChoice
from collie.campaign.safety import Guard, SafetyRecord, record_of
from collie.campaign.single_run import SingleRunSession
from collie.clock import utc_now
from collie.detect.bounds import Calibration
from collie.detect.signature import Levels
from collie.errors import StoreUnwritable
from collie.inventory.fingerprint import Fingerprint
from collie.ports import CampaignHeader, ProgressSink
from collie.workloads.workload import Opcode


@contextmanager
def open_session(
    adapters: Adapters,
    choice: SearchChoice,
    sink: ProgressSink,
    calibration: Calibration | None = None,
    calibrated_on: Mapping[str, Fingerprint] | None = None,
    levels: Levels | None = None,
) -> Iterator[SingleRunSession]:
    """Open a testbed for single workloads, and close it. `calibration` is ignored on hosts unlike `calibrated_on`."""
    recipe = recipe_of(adapters, choice.testbed, choice.recipe)
    narrowed_space_of(adapters, choice, recipe)  # a wrong choice is refused before any host is contacted
    require_victim(choice.testbed, recipe)
    guard = Guard(limits_of(adapters, choice))
    with closing(open_testbed(adapters, choice.testbed, choice.seed)) as testbed:
        require_possible_victim(testbed, choice.testbed)
        require_idle_ports(testbed, shared_port=choice.shared_port)
        able = choice.capabilities or testbed.capabilities
        space = narrowed_space_of(adapters, dataclasses.replace(choice, capabilities=able), recipe)
        header = CampaignHeader("session", {}, space.name, recipe.name, {}, choice.seed, utc_now())
        if calibrated_on and unlike(calibrated_on, testbed):
            calibration = None
        ceilings = calibration or kept_calibration(adapters, choice.testbed, testbed, space) or Calibration()
        opened = SingleRunSession(
            testbed, adapters.records.in_memory(header), space, recipe.thresholds, ceilings, sink, guard, levels
        )
        yield opened
        opened.safety = record_of(guard, testbed.close())


@dataclass(frozen=True)
class Calibrated:
    """Result of a calibration. `path` is None after a `failure` to write the file."""

    calibration: Calibration
    path: Path | None
    safety: SafetyRecord | None
    failure: StoreUnwritable | None = None


def calibrate(
    adapters: Adapters,
    choice: SearchChoice,
    repeats: int,
    sink: ProgressSink,
    sizes: Sequence[int] = DENSE_SIZES,
    opcodes: Sequence[Opcode] = (),
) -> Calibrated:
    """Measure plain traffic on real hosts, and keep its rates as ceilings of later searches.

    If the file cannot be written at the end, the result is still returned. `sizes` are in bytes. No opcode means all.

    Raises:
        StoreUnwritable: the folder of calibrations cannot be written. No host has been contacted by then.
    """
    adapters.records.require_writable_calibrations()
    with open_session(adapters, choice, sink) as opened:
        calibration = dataclasses.replace(
            opened.calibrate(repeats, sizes, opcodes), measured_on=utc_now().partition("T")[0]
        )
        name = calibration_name(adapters, opened.testbed, opened.space)
    try:
        return Calibrated(calibration, adapters.records.keep_calibration(calibration, name), opened.safety)
    except StoreUnwritable as failure:
        return Calibrated(calibration, None, opened.safety, failure)
