"""Single workloads on a testbed: measured, and calibrated with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from collie.app.adapters import Adapters
from collie.app.inputs import limits_of, narrowed_space_of, recipe_of
from collie.app.testbeds import calibration_name, kept_calibration, open_testbed, require_idle_ports, unlike
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
    """Open a testbed for single workloads, and close it.

    Args:
        adapters: in use.
        choice: testbed, space, recipe (for its thresholds) and seed, as of a search.
        sink: receives the events.
        calibration: known ceilings.
        calibrated_on: fingerprints of the hosts of that calibration, if known. For other hosts it is not used.
        levels: known readings of healthy runs.
    """
    narrowed_space_of(adapters, choice)  # a wrong choice is refused before any host is contacted
    recipe = recipe_of(adapters, choice.testbed, choice.recipe)
    guard = Guard(limits_of(adapters, choice))
    testbed = open_testbed(adapters, choice.testbed, choice.seed)
    try:
        require_idle_ports(testbed, shared_port=choice.shared_port)
        able = choice.capabilities or testbed.capabilities
        space = narrowed_space_of(adapters, dataclasses.replace(choice, capabilities=able))
        header = CampaignHeader("session", {}, space.name, recipe.name, {}, choice.seed, utc_now())
        if calibrated_on and unlike(calibrated_on, testbed):
            calibration = None
        ceilings = calibration or kept_calibration(adapters, choice.testbed, testbed, space) or Calibration()
        opened = SingleRunSession(
            testbed, adapters.records.in_memory(header), space, recipe.thresholds, ceilings, sink, guard, levels
        )
        yield opened
        opened.safety = record_of(guard, testbed.close())
    finally:
        testbed.close()


@dataclass(frozen=True)
class Calibrated:
    """Result of a calibration.

    Attributes:
        calibration: the ceilings.
        path: of their file, None if it could not be written.
        safety: record of the runs, None without limits.
        failure: the reason why the file could not be written.
    """

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

    If the file cannot be written in the end, the result is still returned.

    Args:
        adapters: in use.
        choice: hosts, and the space that gives plain values.
        repeats: of each workload.
        sink: receives the events.
        sizes: of messages, in bytes.
        opcodes: only these, empty for all of the space.

    Raises:
        StoreUnwritable: the folder of calibrations cannot be written. No host has been contacted.
        TestbedError: the hosts cannot be used.
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
