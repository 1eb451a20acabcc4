"""Differences between hosts that a gate allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.app.baselines import Baseline
from collie.campaign.choice import SearchChoice
from collie.campaign.gate.cases import Record
from collie.campaign.hardships import Hardships, Outliers
from collie.detect.bounds import Calibration
from collie.inventory.fingerprint import Difference, Fingerprint, difference
from collie.inventory.under_test import beyond

THEN = Fingerprint(
    {"nic": {"firmware": "1", "driver": "mlx5"}, "software": {"kernel": "6.1"}, "pcie": {"address": "0"}}
)
NOW = Fingerprint(
    {"nic": {"firmware": "2", "driver": "mlx5"}, "software": {"kernel": "6.12"}, "pcie": {"address": "1"}}
)


@pytest.mark.parametrize(
    ("under_test", "left"),
    [
        ((), ["nic.firmware", "software.kernel"]),
        (("firmware",), ["software.kernel"]),
        (("firmware", "kernel"), []),
        (("nic", "software.kernel"), []),
        (("everything",), []),
        (("settings",), ["nic.firmware", "software.kernel"]),
    ],
)
def test_only_what_is_under_test_may_differ(under_test: tuple[str, ...], left: list[str]) -> None:
    assert [each.field for each in beyond(difference(THEN, NOW), under_test)] == left


def test_of_a_baseline_of_several_pairs_only_the_hosts_of_the_gate_are_compared() -> None:
    four = dict.fromkeys("abcd", THEN)
    baseline = Baseline(Path(), SearchChoice(), (), Record(), Calibration(), four)
    assert set(baseline.fingerprints_of({"a": THEN, "b": THEN})) == {"a", "b"}
    assert baseline.fingerprints_of({"a": THEN, "x": THEN}) == four, "who is unknown is compared with nobody"


def test_settings_do_not_excuse_another_subsystem() -> None:
    hardships = Hardships({"all": 0.6}, Outliers(0.1, 0.1), 0.1).description()
    found: list[Difference] = list(
        difference(
            Fingerprint({"subsystem": {"subsystem": "F", "hardware": "x", "acs": "enabled", "noise": 1.0}}),
            Fingerprint(
                {"subsystem": {"subsystem": "H", "hardware": "y", "acs": "disabled", "noise": 0.0, **hardships}}
            ),
        )
    )
    assert [each.field for each in beyond(found, ("settings",))] == [
        f"subsystem.{name}" for name in ("subsystem", "hardware", "noise", *hardships)
    ]
    assert len(hardships) == 3
