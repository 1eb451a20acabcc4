"""The subsystems that were written before public measurements were compared, and those measurements."""

from __future__ import annotations

import hashlib
import json

import pytest
import yaml

from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.simulator.subsystem import SUBSYSTEM_FOLDER, SubsystemFile
from collie.simulator.truth import Truth
from collie.workloads.workload import Memory, Opcode, Workload
from tests.support.public_figures import (
    ALONE_BPS,
    CURVES,
    EXPLANATIONS,
    FIGURES,
    FROZEN,
    LATENCIES,
    SECOND_READING,
    THROUGHPUTS,
    UNMODELLED,
    hardware,
    one_way_us,
    received_bps,
    second_reading,
    set_up,
    shortfalls,
    unexplained,
)

CONTENT = {
    "cx6-200": "ffba1e99c934eff2d0c713f345ae6e63bfa5fbb0a170a8fb252ff9b68a6b1f6f",
    "cx7-400": "8a13aa79fb06232c705255bbf2f571e5bbe4ba29d6903036b992799adb480634",
}
"""SHA-256 of each frozen file, without its comments."""


@pytest.mark.parametrize("name", FROZEN)
def test_a_compared_row_changes_no_quantity(name: str) -> None:
    content = yaml.safe_load((SUBSYSTEM_FOLDER / f"{name}.yaml").read_text())
    assert hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest() == CONTENT[name]


@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_subsystem_claims_no_mechanism_and_shows_none(name: str) -> None:
    file, space = load_subsystem(name, SubsystemFile), load_space("nsdi22")
    assert file.witnesses == ()
    triggers = [witness.trigger for witness in load_subsystem("F", SubsystemFile).witnesses]
    assert not Truth(file, space).severities([one for one in triggers if one.memory is not Memory.GPU]).any()


def test_one_process_limits_small_messages_and_sixteen_do_not() -> None:
    small = Workload(mtu=1024, qps=4, messages=(64,))
    for opcode in (Opcode.WRITE, Opcode.SEND, Opcode.READ):
        one, many = (
            received_bps(hardware("cx6-200", processes), small.with_(opcode=opcode)) for processes in ("1", "16")
        )
        assert one / 8 / 64 == pytest.approx(1 / 0.176e-6)
        assert many > 4 * one


def test_every_figure_has_its_source() -> None:
    assert all(figure.source and figure.text and figure.measured > 0 for figure in FIGURES)
    assert all(one.source and one.reason for one in UNMODELLED)
    assert len({figure.id for figure in FIGURES}) == len(FIGURES) >= 2 * len(CURVES)
    assert set(EXPLANATIONS) <= {figure.id for figure in FIGURES}


def test_most_throughputs_are_near_and_all_other_figures_are_explained() -> None:
    assert unexplained() == []
    assert sum(figure.near for figure in THROUGHPUTS) >= 0.7 * len(THROUGHPUTS)


def test_the_second_reading_changes_two_quantities_of_the_network() -> None:
    frozen, other = hardware("cx6-200").model_dump(), set_up().model_dump()
    changed = [
        f"{part}.{name}"
        for part, quantities in frozen.items()
        if isinstance(quantities, dict)
        for name, value in quantities.items()
        if other[part][name] != value
    ]
    assert changed == ["wire.line_rate_bps", "wire.round_trip_seconds"]
    assert frozen["wire"]["line_rate_bps"] == 2 * set_up().wire.line_rate_bps
    assert received_bps(set_up(), Workload(mtu=1024, messages=(8 << 20,))) == pytest.approx(ALONE_BPS, rel=0.06)


def test_the_second_reading_leaves_out_the_row_that_sets_the_delay() -> None:
    assert one_way_us(set_up(), Opcode.WRITE, 2) == pytest.approx(LATENCIES[2][1])
    ids = [figure.id for figure in SECOND_READING]
    assert len(ids) == 2 * len(LATENCIES) - 1
    assert "latency-write-2" not in ids
    assert [row[5] for row in second_reading()].count("sets the delay") == 1


def test_the_second_reading_is_near_and_changes_no_verdict() -> None:
    assert all(figure.near for figure in SECOND_READING)
    assert not {*SECOND_READING} & {*FIGURES}
    assert any("as frozen: 0 of 19 figures of latency" in line for line in shortfalls())
