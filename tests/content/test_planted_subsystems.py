"""The subsystem files that only tests and acceptance scripts search."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.simulator.audit import audit
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth

FILES = sorted((Path(__file__).parents[1] / "data" / "subsystems").glob("*.yaml"))
SPACE = load_space("nsdi22")
SURVEYED = 500
"""Random workloads that look for mechanisms without a witness."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_claim_holds(path: Path) -> None:
    checked = audit(load_subsystem(str(path), SubsystemFile), SPACE, SURVEYED)
    assert checked.problems == 0


@pytest.mark.parametrize("path", [each for each in FILES if each.stem.startswith("sick-")], ids=lambda path: path.stem)
def test_plain_traffic_of_a_sick_file_pauses_an_eighth_of_the_time(path: Path) -> None:
    file = load_subsystem(str(path), SubsystemFile)
    plain = file.witnesses[0].trigger
    odd = {name for name in SPACE.dimensions if plain.get(name) != SPACE.base.get(name)}
    assert odd <= {"qp_type", "opcode", "messages"}
    assert Truth(file, SPACE).verdict(plain).severity > 0.1
