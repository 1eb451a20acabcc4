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
        adapters: the world.
        choice: testbed, space, recipe (for its thresholds) and seed of a search that would judge alike.
        sink: who watches.
        calibration: ceilings that are known already.
        calibrated_on: fingerprints of the hosts that they were measured on, if known; of other hosts they say nothing.
        levels: what healthy runs read, where that is known already.
    """
    narrowed_space_of(adapters, choice)  # what is wrong with the choice is said before any host is asked
    recipe = recipe_of(adapters, choice.testbed, choice.recipe)
    guard = Guard(limits_of(adapters, choice))
    testbed = open_testbed(adapters, choice.testbed, choice.seed)
    try:
        require_idle_ports(testbed, shared_port=choice.shared_port)
        able = choice.capabilities or testbed.capabilities
        space = narrowed_space_of(adapters, dataclasses.replace(choice, capabilities=able))
        header = CampaignHeader("bench", {}, space.name, recipe.name, {}, choice.seed, utc_now())
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
    """What calibrating has measured.

    Attributes:
        calibration: the ceilings.
        path: where they are kept; None where they could not be.
        safety: what the runs did to the network; None where nothing was limited.
        failure: why they could not be kept.
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
    """Measure what plain traffic achieves on real hosts, and keep it for later searches.

    Where it cannot be kept in the end, it is returned all the same: hosts have worked for it.

    Args:
        adapters: the world.
        choice: hosts, and the space that gives plain values.
        repeats: of each workload.
        sink: who watches.
        sizes: of messages, in bytes.
        opcodes: only these; all of the space without any.

    Raises:
        StoreUnwritable: it could not be kept, as is found out before any host is asked.
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
