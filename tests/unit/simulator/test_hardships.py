"""Flaky mechanisms, outliers and drift: how often, on which host, how far, and that they touch no other draw."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

import pytest

from collie.campaign.hardships import Hardships, Outliers
from collie.content.catalogs import load_catalog
from collie.content.subsystems import load_subsystem
from collie.detect.bounds import Bound
from collie.detect.judge import judge
from collie.detect.measurement import Measurement
from collie.detect.thresholds import Thresholds
from collie.errors import UsageError
from collie.fleet.fault import Fault, FaultKind
from collie.ports import Measured
from collie.simulator.cures import cured
from collie.simulator.faults import faulty
from collie.simulator.fleet import group_opener
from collie.simulator.hardships import DRIFT_SECONDS, RUN_SECONDS, absent, lost_share, outlier_pause, show_rates
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import SimulatedTestbed
from collie.workloads.workload import Workload

F = load_subsystem("F", SubsystemFile)
CATALOG = load_catalog("simulated")
PREFETCH, CONTEXTS = Mechanism.DATAGRAM_PREFETCH, Mechanism.CONTEXT_CACHE
STORM, THRASHING = (
    next(witness.trigger for witness in F.witnesses if witness.mechanism is name) for name in (PREFETCH, CONTEXTS)
)
F_WITHOUT_PREFETCH = cured(F, [PREFETCH])
PLAIN = Workload()
RUNS = 2000
BOUND = Bound(200e9, 1e9, "specification")


def simulated(hardships: Hardships | None = None, noise: float = 0.0, seed: int = 1) -> SimulatedTestbed:
    return SimulatedTestbed(F, CATALOG, seed=seed, noise=noise, hardships=hardships)


def run_of(testbed: SimulatedTestbed, workload: Workload, run: int) -> Measurement:
    result = testbed.measure(workload, run)
    assert isinstance(result, Measured)
    return result.measurement


def shows(measurement: Measurement) -> bool:
    return judge(STORM, measurement, BOUND, Thresholds()).is_anomalous


def within_binomial_limits(count: int, runs: int, share: float) -> bool:
    """Four standard deviations: a right program fails 1 in 16,000 seeds, and the seed is fixed."""
    return abs(count - runs * share) <= 4.0 * sqrt(runs * share * (1.0 - share))


@pytest.mark.parametrize(("name", "rate"), [("all", 0.6), (PREFETCH.value, 0.6), (PREFETCH.value, 0.3)])
def test_a_flaky_mechanism_shows_in_its_share_of_the_runs(name: str, rate: float) -> None:
    flaky = simulated(Hardships({name: rate}))
    whole, healed = simulated().measure(STORM, 1), SimulatedTestbed(F_WITHOUT_PREFETCH, CATALOG, noise=0)
    shown = [shows(run_of(flaky, STORM, run)) for run in range(RUNS)]
    assert within_binomial_limits(sum(shown), RUNS, rate)
    if name != "all":
        assert flaky.measure(STORM, shown.index(True)) == whole
        assert flaky.measure(STORM, shown.index(False)) == healed.measure(STORM, 1)


def test_mechanisms_are_drawn_one_by_one() -> None:
    rates = show_rates({"all": 0.5})
    assert set(rates) == set(Mechanism)
    missing = [absent(rates, 1, run) for run in range(RUNS)]
    assert all(within_binomial_limits(sum(name in each for each in missing), RUNS, 0.5) for name in Mechanism)
    both = sum(PREFETCH in each and CONTEXTS in each for each in missing)
    assert within_binomial_limits(both, RUNS, 0.25)
    assert missing != [absent(rates, 2, run) for run in range(RUNS)]
    alone = show_rates({PREFETCH.value: 0.5})
    assert [absent(alone, 1, run) for run in range(RUNS)] == [each & {PREFETCH} for each in missing]


def test_a_name_of_its_own_comes_before_all() -> None:
    assert show_rates({"all": 0.6, CONTEXTS.value: 1.0}) == dict.fromkeys(set(Mechanism) - {CONTEXTS}, 0.6)
    assert show_rates({CONTEXTS.value: 0.3}) == {CONTEXTS: 0.3}
    never = simulated(Hardships({"all": 0.0, CONTEXTS.value: 1.0}))
    assert not any(shows(run_of(never, STORM, run)) for run in range(50))
    healed = simulated(Hardships({"all": 0.0}))
    best, slower = (run_of(testbed, THRASHING, 1).host("b").delivered_pps or 0.0 for testbed in (healed, never))
    assert slower < 0.9 * best


def test_an_unknown_mechanism_is_refused_with_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"no mechanism 'warp'; one of all, datagram_prefetch, .*, duplex_arbiter"):
        simulated(Hardships({"warp": 0.5}))
    with pytest.raises(UsageError, match="no mechanism 'warp'"):
        group_opener(F, {}, {}, CATALOG, seed=1, noise=1.0, hardships=Hardships({"warp": 0.5}))


def test_flaky_hosts_of_a_fleet_stay_alike_or_unlike() -> None:
    hardships = Hardships({"all": 0.0})
    opened = group_opener(F, {}, {"b": Fault(FaultKind.BIT_ERRORS)}, CATALOG, seed=1, noise=0.0, hardships=hardships)
    alike, unlike = (opened(group).measure(STORM, 1) for group in (("a", "c"), ("a", "b")))
    assert isinstance(alike, Measured)
    assert isinstance(unlike, Measured)
    assert not any(shows(result.measurement) for result in (alike, unlike))
    assert alike.measurement.host("b").counters["rx_crc_errors"] == 0
    assert (unlike.measurement.host("b").counters["rx_crc_errors"] or 0) > 0
    plain = SimulatedTestbed(F, CATALOG, noise=0, peer=faulty(F, Fault(FaultKind.BIT_ERRORS)))
    assert shows(run_of(plain, STORM, 1))


def test_outliers_pause_in_their_share_of_the_runs_on_either_host() -> None:
    pauses = [outlier_pause(Outliers(1 / 30, 0.02), 1, run) for run in range(RUNS)]
    sent = [pause for pause in pauses if any(pause)]
    assert within_binomial_limits(len(sent), RUNS, 1 / 30)
    assert all(min(pause) == 0 and 0.018 <= max(pause) <= 0.022 for pause in sent)
    assert within_binomial_limits(sum(a > 0 for a, _ in sent), len(sent), 0.5)
    assert pauses != [outlier_pause(Outliers(1 / 30, 0.02), 2, run) for run in range(RUNS)]


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_an_outlier_is_the_same_in_every_reading(noise: float) -> None:
    outliers = Outliers(0.1, 0.2)
    hard = simulated(Hardships(outliers=outliers), noise)
    run = next(run for run in range(RUNS) if outlier_pause(outliers, 1, run)[0])
    for workload in (PLAIN, Workload(qps=8)):
        measurement = run_of(hard, workload, run)
        a, b = measurement.hosts
        assert a.tx_pause_ratio == pytest.approx(outlier_pause(outliers, 1, run)[0], rel=0.01)
        assert b.rx_pause_ratio == a.tx_pause_ratio
        assert b.tx_pause_ratio == pytest.approx(0.0, abs=1e-3)
        assert a.counters["tx_pause_duration"] == b.counters["rx_pause_duration"]
        assert a.counters["tx_pause_duration"] == pytest.approx(1e6 * (a.tx_pause_ratio or 0.0))
        window = [sample.values["tx_pause_ratio"] for sample in measurement.series if sample.host == "a"][-5:]
        assert window == [pytest.approx(a.tx_pause_ratio, rel=0.1)] * 5
    assert hard.measure(PLAIN, run + 1) == simulated(noise=noise).measure(PLAIN, run + 1) or noise == 0


@pytest.mark.parametrize("seed", range(20))
def test_drift_rises_slowly_to_its_share(seed: int) -> None:
    lost = [lost_share(0.1, seed, seconds) for seconds in range(0, 72_000, 60)]
    assert lost[0] == 0
    assert all(0 <= share <= 0.15 for share in lost)
    assert max(abs(later - share) for share, later in pairwise(lost)) < 0.0015, "within a minute"
    assert all(lost_share(0.1, seed, DRIFT_SECONDS + more) >= 0.1 for more in (0.0, 1e4, 1e9))
    assert max(lost[600:]) > 0.149, "the swing goes on"
    assert lost != [lost_share(0.1, seed + 1, seconds) for seconds in range(0, 72_000, 60)]


def test_drift_takes_throughput_and_adds_pause() -> None:
    hard, plain = simulated(Hardships(drift=0.1)), simulated()
    for run in (0, 300, 900, 5000):
        lost = lost_share(0.1, 1, run * RUN_SECONDS)
        then, now = run_of(plain, STORM, run).host("b"), run_of(hard, STORM, run).host("b")
        assert now.delivered_bps == pytest.approx((then.delivered_bps or 0.0) * (1 - lost))
        assert now.delivered_pps == pytest.approx((then.delivered_pps or 0.0) * (1 - lost))
        assert now.counters["rx_bytes"] == pytest.approx((then.counters["rx_bytes"] or 0.0) * (1 - lost))
        assert now.tx_pause_ratio == pytest.approx((then.tx_pause_ratio or 0.0) * (1 + lost))
        assert run_of(hard, PLAIN, run).host("b").tx_pause_ratio == 0


def test_hardships_leave_every_other_draw() -> None:
    plain = simulated(noise=1.0)
    nothing = simulated(Hardships({"all": 1.0}, Outliers(0.0, 0.5)), noise=1.0)
    unseen = simulated(Hardships({PREFETCH.value: 0.0}, Outliers(1e-9, 0.5)), noise=1.0)
    for run in range(300):
        expected = plain.measure(PLAIN, run)
        assert nothing.measure(PLAIN, run) == expected
        assert unseen.measure(PLAIN, run) == expected


def test_a_hard_run_depends_on_seed_number_and_workload_alone() -> None:
    hardships = Hardships({"all": 0.6}, Outliers(0.1, 0.2), 0.1)
    first, second = (simulated(hardships, 1.0) for _ in range(2))
    forth = [first.measure(STORM, run) for run in range(100)]
    back = [second.measure(STORM, run) for run in reversed(range(100))]
    assert forth == back[::-1]


@pytest.mark.parametrize(
    "hardships", [Hardships({"all": 0.6}), Hardships(outliers=Outliers(0.1, 0.2)), Hardships(drift=0.1)]
)
def test_another_seed_has_other_hard_runs(hardships: Hardships) -> None:
    one, other = ([simulated(hardships, seed=seed).measure(STORM, run) for run in range(100)] for seed in (1, 2))
    assert one != other


def test_outliers_come_whether_or_not_a_mechanism_shows() -> None:
    for name in (PREFETCH, Mechanism.DATAGRAM_RECEIVE_CACHE, Mechanism.READ_SLOW_PATH):
        missing = [bool(absent({name: 0.5}, 1, run)) for run in range(RUNS)]
        pauses = [outlier_pause(Outliers(0.5, 0.1), 1, run) for run in range(RUNS)]
        both = sum(gone and any(pause) for gone, pause in zip(missing, pauses, strict=True))
        assert within_binomial_limits(both, RUNS, 0.25)


def test_a_testbed_names_its_hardships() -> None:
    hardships = Hardships({"context_cache": 0.3, "all": 0.6}, Outliers(1 / 30, 0.02), 0.1)
    said = {"flaky": "all=0.6, context_cache=0.3", "outliers": "1/30:0.02", "drift": "0.1"}
    assert said.items() <= simulated(hardships).info.description.items()
    assert said.items() <= simulated(hardships).info.fingerprints["F"].values["subsystem"].items()
    assert not said.keys() & simulated().info.description.keys()
