"""The one package that names every concrete class: which testbed, which store, which content."""

from collie.wiring.benches import NamedCase, bench, calibrate, case_named, workload_named
from collie.wiring.campaigns import (
    OpenCampaign,
    begin,
    describe,
    read_campaign,
    recorded_choice,
    resume,
    score,
    write_report,
)
from collie.wiring.exports import EXPORTS, Exported, export
from collie.wiring.hosts import check, diff, fingerprints_named, take_fingerprints, watch
from collie.wiring.parts import known_sets, limits_of, narrowed_space_of, recipe_of, space_of
from collie.wiring.subsystems import (
    MapChoice,
    NamedSubsystem,
    audit_subsystem,
    describe_subsystem,
    severity_map,
    subsystems,
)
from collie.wiring.testbeds import (
    LAB,
    catalog_of,
    first_pair,
    kept_calibration,
    lab_inventory,
    look_around,
    open_inventory,
    open_testbed,
    subsystem_of,
)

__all__ = [
    "EXPORTS",
    "LAB",
    "Exported",
    "MapChoice",
    "NamedCase",
    "NamedSubsystem",
    "OpenCampaign",
    "audit_subsystem",
    "begin",
    "bench",
    "calibrate",
    "case_named",
    "catalog_of",
    "check",
    "describe",
    "describe_subsystem",
    "diff",
    "export",
    "fingerprints_named",
    "first_pair",
    "kept_calibration",
    "known_sets",
    "lab_inventory",
    "limits_of",
    "look_around",
    "narrowed_space_of",
    "open_inventory",
    "open_testbed",
    "read_campaign",
    "recipe_of",
    "recorded_choice",
    "resume",
    "score",
    "severity_map",
    "space_of",
    "subsystem_of",
    "subsystems",
    "take_fingerprints",
    "watch",
    "workload_named",
    "write_report",
]
