"""What a bundle's controller finds on hosts that pretend, and that Collie finds the same by the bundle's data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collie.bundle.controller import Outcome, options_of, run
from collie.campaign.reproduce import Bundle, CountersAtDiscovery, Plan, Reproduced
from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.detect.signature import Levels, Signature
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Loss, Thresholds
from collie.hosts.session import Archive
from collie.hosts.testbed import HostsTestbed
from collie.inventory.fingerprint import Fingerprint, HostDifference
from collie.inventory.safety import REAL_HOSTS
from collie.testing.fake_agent import fake_agent_program
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload
from tests.integration.hosts_rig import PAIR, QUICK
from tests.support.local_remote import LocalRemote

CATALOG = Catalog(
    "rxe",
    (
        Counter("rcvd_pkts", "hw_counters", Unit.PACKETS, CounterKind.PERFORMANCE, "software", role=Role.RX_PACKETS),
        Counter("misses", "hw_counters", Unit.EVENTS, CounterKind.DIAGNOSTIC, "cache"),
        Counter("stalls", "hw_counters", Unit.EVENTS, CounterKind.DIAGNOSTIC, "pcie"),
        Counter("tx_pause", "hw_counters", Unit.MICROSECONDS, CounterKind.PAUSE, "wire", role=Role.TX_PAUSE),
    ),
)
ANOMALY = Workload(qps=4)
CONTROL = Workload(qps=1)
CONDITION = Condition("qps", Op.AT_LEAST, 2)
FINGERPRINT = Fingerprint(
    {"nic": {"firmware": "1.0", "psid": None}, "link": {"netdev": "eth1"}, "generator": {"data_path": "native"}}
)
BUNDLE = Bundle(
    name="camp/a1",
    collie_version="0.1.0",
    exported="2026-11-22T00:00:00Z",
    found_on="hosts left,right",
    sentence="",
    likely="",
    symptom=Symptom.PAUSE,
    mfs=Mfs((CONDITION,)),
    plan=Plan(ANOMALY, ((CONTROL, CONDITION),)),
    siblings={ANOMALY: Workload(), CONTROL: Workload()},
    thresholds=Thresholds(),
    at_discovery=CountersAtDiscovery(
        Signature((("misses", 5.0),)), Levels({"misses": 0.01, "stalls": 0.01}, ("rcvd_pkts",))
    ),
    fingerprints={"left": FINGERPRINT, "right": FINGERPRINT},
)
Rerun = Callable[..., Outcome]


@pytest.fixture
def rerun(tmp_path: Path) -> Rerun:
    def rerun(
        counters: dict[str, int], bundle: Bundle = BUNDLE, agents: Mapping[str, Any] = {}, **options: Any
    ) -> Outcome:
        behaviour = {
            **agents,
            "counters": {"hw_counters": {"rcvd_pkts": 10_000, "misses": 10, "stalls": 10, "tx_pause": 0} | counters},
        }
        for host in PAIR.hosts:
            (tmp_path / host.name).mkdir(exist_ok=True)
            (tmp_path / host.name / "behaviour.json").write_text(json.dumps(behaviour))
        testbed = HostsTestbed(
            PAIR,
            lambda host: LocalRemote(host.name, tmp_path / host.name),
            lambda driver: CATALOG,
            policy=QUICK,
            archive=Archive.of(fake_agent_program()),
            **options_of(bundle),
        )
        return run(bundle, testbed, **{"repeat": 2, "controls": False, "shared_port": False} | options)

    return rerun


def known_differences(changed: tuple[HostDifference, ...] | None) -> list[str]:
    """What is known of both sides and differs: what else these hosts tell of themselves is no matter here."""
    assert changed is not None
    return [str(each) for host in changed for each in host.differences if not each.unknown]


def test_what_shows_again_with_the_same_counters_is_reproduced(rerun: Rerun) -> None:
    found, changed, safety = rerun({"tx_pause": 900_000, "misses": 4000})
    assert found.answer is Reproduced.YES
    assert found.same_counters is True
    assert known_differences(changed) == []
    assert safety is not None
    assert safety.queue_pairs_left == {"left": 0, "right": 0}
    assert safety.limits == REAL_HOSTS  # pause is limited in a bundle as anywhere
    assert safety.pause_seconds


def test_the_same_symptom_with_other_counters_is_reported(rerun: Rerun) -> None:
    found, _, _ = rerun({"tx_pause": 900_000, "stalls": 40_000})
    assert (found.answer, found.same_counters) == (Reproduced.YES, False)


def test_counters_that_these_hosts_lack_do_not_discriminate(rerun: Rerun) -> None:
    foreign = CountersAtDiscovery(Signature((("their_misses", 5.0),)), Levels({"their_misses": 0.01}, ("rcvd_pkts",)))
    found, _, _ = rerun({"tx_pause": 900_000}, replace(BUNDLE, at_discovery=foreign))
    assert (found.answer, found.at_discovery, found.same_counters) == (Reproduced.YES, None, None)


def test_what_no_longer_shows_is_not_reproduced_and_the_changed_firmware_is_named(rerun: Rerun) -> None:
    older = Fingerprint({**FINGERPRINT.values, "nic": {"firmware": "0.9", "psid": None}})
    found, changed, _ = rerun({}, replace(BUNDLE, fingerprints={"left": older, "right": older}), controls=True)
    assert found.answer is Reproduced.NO
    assert [control.broken for control in found.controls] == [CONDITION]
    assert known_differences(changed) == ["nic.firmware: 0.9 and 1.0"] * 2


def test_nothing_is_said_of_differences_when_nothing_was_kept(rerun: Rerun) -> None:
    _, changed, _ = rerun({}, replace(BUNDLE, fingerprints={}, at_discovery=None), repeat=1)
    assert changed is None


def test_the_harm_to_a_neighbour_needs_the_neighbour(rerun: Rerun) -> None:
    harmful = replace(
        BUNDLE,
        symptom=Symptom.VICTIM_LOSS,
        thresholds=Thresholds(loss_of=Loss.OF_VICTIM),
        at_discovery=None,
        victim=True,
    )
    found, _, _ = rerun({}, harmful, {"victim_keeps_beside": {str(ANOMALY.qps): 0.25}})
    assert found.answer is Reproduced.YES
    found, _, _ = rerun({}, harmful)
    assert found.answer is Reproduced.NO
