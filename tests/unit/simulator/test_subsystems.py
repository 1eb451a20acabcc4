"""The built-in subsystems as a family: which shows which anomalies, and what cures and healthy hardware are worth."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SUBSYSTEM_FOLDER, SubsystemFile, Witness
from collie.simulator.truth import Truth, planted
from collie.workloads.workload import Memory, Workload

SPACE = load_space("nsdi22")
NAMES = sorted(path.stem for path in SUBSYSTEM_FOLDER.glob("*.yaml"))
FILES = {name: load_subsystem(name, SubsystemFile) for name in NAMES}
PLANTED = {name: frozenset(planted(file)) for name, file in FILES.items()}
WITNESSES = [pytest.param(name, one, id=f"{name}-{one.mechanism}") for name in NAMES for one in FILES[name].witnesses]
POINTS = [SPACE.sample(Random(seed)) for seed in range(300)]

M = Mechanism
DELAYS = {M.ACKNOWLEDGEMENT_TIMER, M.COLD_REGIONS, M.LONG_LISTS, M.LOOPBACK_BURSTS}
VERBS = {M.NEW_REGIONS, M.NEW_QUEUE_PAIRS, M.NEW_ADDRESS_HANDLES, M.QUEUE_PAIR_ERRORS}
F = frozenset(M) - {M.TRANSMIT_STAGING, M.PENDING_READS, M.DUPLEX_ARBITER, M.IDLE_FLOWS} - DELAYS - VERBS
EXPECTED = {
    "A": {M.DATAGRAM_PREFETCH, M.READ_SLOW_PATH, M.RELIABLE_PREFETCH, M.CONTEXT_CACHE},
    "B": {
        M.CONTEXT_CACHE,
        M.DATAGRAM_PREFETCH,
        M.READ_SLOW_PATH,
        M.READ_SCATTER_LISTS,
        M.RELIABLE_PREFETCH,
        M.ACKNOWLEDGEMENT_BLOCKING,
        M.LOOPBACK_INCAST,
    },
    "D": {M.CONTEXT_CACHE, M.DATAGRAM_PREFETCH, M.READ_SLOW_PATH, M.RELIABLE_PREFETCH, M.LOOPBACK_INCAST},
    "E": F,
    "F": F,
    "G": F - {M.PEER_TO_PEER_REDIRECT},
    "H": {
        M.DATAGRAM_RECEIVE_CACHE,
        M.RELIABLE_RECEIVE_CACHE,
        M.TRANSMIT_STAGING,
        M.PENDING_READS,
        M.DUPLEX_ARBITER,
    },
    "F-cured": {
        M.DATAGRAM_PREFETCH,
        M.DATAGRAM_RECEIVE_CACHE,
        M.READ_SCATTER_LISTS,
        M.RELIABLE_PREFETCH,
        M.TRANSLATION_CACHE,
        M.CONTEXT_CACHE,
        M.LOOPBACK_INCAST,
    },
    "F-healthy": set(),
}
EXPECTED["C"] = EXPECTED["B"]


@cache
def truth(name: str) -> Truth:
    return Truth(FILES[name], SPACE)


def supported(name: str, workload: Workload) -> bool:
    host = FILES[name].host
    return host.gpu or Memory.GPU not in (workload.memory, workload.peer_memory)


def test_table_1_is_complete() -> None:
    assert {*"ABCDEFGH", "F-cured", "F-healthy"} <= set(NAMES)
    assert all(FILES[name].name == name for name in NAMES)


@pytest.mark.parametrize("name", EXPECTED)
def test_who_shows_what(name: str) -> None:
    assert PLANTED[name] == EXPECTED[name]


@pytest.mark.parametrize(("name", "witness"), WITNESSES)
def test_every_witness_shows_its_mechanism(name: str, witness: Witness) -> None:
    space, known = SPACE, truth(name)
    if witness.mechanism in DELAYS | VERBS:
        space = load_space("offered-load" if witness.mechanism in DELAYS else "control-verbs")
        known = Truth(FILES[name], space)
    assert space.complaints(witness.trigger) == []
    assert supported(name, witness.trigger)
    assert known.verdict(witness.trigger).is_anomalous
    assert known.mechanism(witness.trigger) is witness.mechanism


def test_slower_is_fewer() -> None:
    assert all(PLANTED[name] <= PLANTED["F"] for name in "ABCDEG")
    assert PLANTED["A"] < PLANTED["B"] < PLANTED["F"]
    assert PLANTED["D"] < PLANTED["F"]


def test_the_rpc_library_may_meet_anomalies_4_and_5_on_b_and_c() -> None:
    for name in "BC":
        for mechanism in (M.READ_SCATTER_LISTS, M.RELIABLE_PREFETCH):
            assert mechanism in PLANTED[name]


@pytest.mark.parametrize("name", "ABCDEFG")
def test_what_happens_by_chance_is_planted(name: str) -> None:
    points = [point for point in POINTS if supported(name, point)]
    severities, mechanisms = truth(name).severities(points), truth(name).mechanisms(points)
    assert {mechanism for mechanism, severity in zip(mechanisms, severities, strict=True) if severity} <= PLANTED[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_workload_fills_the_line_in_both_directions(name: str) -> None:
    plain = SPACE.base
    both = plain.with_(direction=next(d for d in type(plain.direction) if d is not plain.direction))
    assert not truth(name).verdict(plain).is_anomalous
    assert not truth(name).verdict(both).is_anomalous


@pytest.mark.parametrize("name", NAMES)
def test_settings_cure_only_what_the_subsystem_has(name: str) -> None:
    # In F-cured the settings stand on their cures, so what they cure is what F has.
    known = PLANTED["F"] if name == "F-cured" else PLANTED[name]
    for setting in FILES[name].settings.values():
        assert set(setting.cures) <= known


def test_all_published_cures_are_in_force_on_f_cured() -> None:
    by_hand = FILES["F"].with_settings(
        {name: setting.value for name, setting in FILES["F-cured"].settings.items() if name in FILES["F"].settings}
    )
    for part in ("wire", "acknowledgements", "pcie", "gpu_bridge", "host", "receive_buffer"):
        assert getattr(by_hand.hardware, part) == getattr(FILES["F-cured"].hardware, part)
    triggers = [one.trigger for one in FILES["F"].witnesses if one.mechanism not in PLANTED["F-cured"]]
    assert not truth("F-cured").severities(triggers).any()


def test_a_cure_makes_nothing_worse() -> None:
    whole, remaining = truth("F").severities(POINTS), truth("F-cured").severities(POINTS)
    assert 0 < (remaining > 0).sum() < (whole > 0).sum()
    assert set(truth("F-cured").mechanisms(POINTS)) - {None} <= PLANTED["F-cured"]


def test_nothing_is_anomalous_on_f_healthy() -> None:
    rng = Random(1)
    triggers = [one.trigger for name in NAMES for one in FILES[name].witnesses]
    mutated = [SPACE.mutate(trigger, rng) for trigger in triggers]
    assert not truth("F-healthy").severities([*POINTS, *triggers, *mutated]).any()


@pytest.mark.parametrize("name", sorted(set(FILES["F-healthy"].settings) - {"pfc"}))
def test_f_healthy_is_healthy_whatever_is_set(name: str) -> None:
    triggers = [one.trigger for one in FILES["F"].witnesses]
    for option in FILES["F-healthy"].settings[name].options:
        changed = FILES["F-healthy"].with_settings({name: option})
        assert not Truth(changed, SPACE).severities(triggers).any()
