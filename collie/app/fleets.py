"""Fleets: simulated hosts with faults, or the hosts of an inventory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Final

from collie.app.adapters import Adapters
from collie.app.inputs import limits_of
from collie.app.inventories import open_inventory
from collie.app.testbeds import require_idle_ports
from collie.campaign.choice import SearchChoice
from collie.campaign.fleet import Battery, BatteryResults, FailedAttempt, Notify, OpenGroup
from collie.campaign.safety import Guard, SafetyRecord, record_of
from collie.errors import UsageError
from collie.fleet.battery import BATTERY, Probe, Stage, is_large_enough, repeats, rounds
from collie.fleet.fault import Fault
from collie.fleet.judge import FALSE_ALARM, judge
from collie.fleet.verdict import FleetVerdict
from collie.inventory.hosts import Pair, host_of
from collie.ports import Testbed
from collie.readings.policy import WindowPolicy

SIMULATED_HOSTS: Final = 16
MAX_SIMULATED: Final = 10_000
_WINDOW_SECONDS: Final = 5.0
"""Window of a run on real hosts. It is longer than a deviation must last (`judge.LASTING`)."""
MAX_PAIRS: Final = 64
"""Limit on groups of real hosts at once. Each takes a thread and two SSH connections."""


@dataclass(frozen=True)
class FleetChoice:
    """An operator's choice of a fleet.

    Attributes:
        search: the testbed, the seed of its noise, the safety limits.
        repeat: repetitions of the battery, or None for the number that a fleet of this size needs.
        pairs: groups of real hosts at once, or None for all that share no host.
        false_alarm: upper bound of the chance of any false accusation in a healthy fleet.
    """

    search: SearchChoice = field(default_factory=SearchChoice)
    simulated_hosts: int | None = None
    faults: Mapping[str, Fault] = field(default_factory=dict)
    repeat: int | None = None
    pairs: int | None = None
    false_alarm: float = FALSE_ALARM


@dataclass(frozen=True)
class FleetResult:
    """Result of a fleet, with its hosts in the order of the ring. `verdict` is None without any reading.

    `attempts` are those that failed, whether or not a later one gave a reading.
    """

    name: str
    hosts: tuple[str, ...]
    battery: tuple[Probe, ...]
    survey: BatteryResults
    verdict: FleetVerdict | None
    safety: SafetyRecord | None
    attempts: tuple[FailedAttempt, ...] = ()


def fleet(adapters: Adapters, choice: FleetChoice, notify: Notify) -> FleetResult:
    """Run the battery on a fleet and judge every host."""
    if choice.search.testbed.is_simulated:
        name, hosts, battery, open_group, lanes = _simulated(adapters, choice)
    else:
        name, hosts, battery, open_group, lanes = _real(adapters, choice)
    guard = Guard(limits_of(adapters, choice.search))
    if not is_large_enough(hosts):
        return FleetResult(name, hosts, battery, BatteryResults(), None, None)
    attempts: list[FailedAttempt] = []

    def keep(attempt: FailedAttempt) -> None:
        attempts.append(attempt)
        notify(attempt)

    plan = rounds(hosts, battery) * (choice.repeat or repeats(hosts))
    approve = partial(require_idle_ports, shared_port=choice.search.shared_port)
    survey = Battery(open_group, guard, lanes, keep, approve).run(plan)
    verdict = judge(survey.readings, hosts, battery, survey.catalog, choice.false_alarm) if survey.catalog else None
    return FleetResult(name, hosts, battery, survey, verdict, record_of(guard, survey.left_behind), tuple(attempts))


_Opened = tuple[str, tuple[str, ...], tuple[Probe, ...], OpenGroup, int]


def _simulated(adapters: Adapters, choice: FleetChoice) -> _Opened:
    if choice.pairs is not None:
        raise UsageError("--pairs says how many pairs of real hosts measure at once; leave it out or add --hosts FILE")
    testbed = choice.search.testbed
    count = SIMULATED_HOSTS if choice.simulated_hosts is None else choice.simulated_hosts
    hosts = tuple(f"host-{number:03d}" for number in range(1, count + 1))
    if strangers := [host for host in choice.faults if host not in hosts]:
        raise UsageError(f"the simulated fleet has no host {strangers[0]}; it has {hosts[0]} to {hosts[-1]}")
    name, open_group = adapters.testbeds.simulated_fleet(testbed, choice.faults, choice.search.seed)
    # The simulator has two hosts at a time and a network that is never congested.
    battery = tuple(probe for probe in BATTERY if probe.stage is not Stage.ALL_TO_ONE)
    return f"simulated subsystem {name}, {count} hosts", hosts, battery, open_group, 1


def _real(adapters: Adapters, choice: FleetChoice) -> _Opened:
    testbed = choice.search.testbed
    if choice.simulated_hosts is not None or choice.faults:
        raise UsageError("--count and --fault are about simulated fleets; the inventory names the real hosts")
    if testbed.settings:
        raise UsageError("--set changes a simulated subsystem; Collie never changes settings of real hosts")
    assert testbed.hosts is not None
    inventory = open_inventory(adapters, testbed.hosts)

    def open_group(group: tuple[str, ...]) -> Testbed:
        a, b, *others = (inventory.host(name) for name in group)
        policy = WindowPolicy(window_seconds=_WINDOW_SECONDS)
        return adapters.testbeds.on_hosts(testbed, Pair(a, b, tuple(others)), policy)()

    hosts = by_rail(host.name for host in inventory.hosts)
    lanes = choice.pairs or min(MAX_PAIRS, max(1, len(hosts) // 2))
    return f"{len(hosts)} hosts of {testbed.hosts}", hosts, BATTERY, open_group, lanes


def by_rail(endpoints: Iterable[str]) -> tuple[str, ...]:
    """Return the ring: the first device of every host, then every second device. Neighbours are on different hosts."""
    number: Counter[str] = Counter()
    placed = []
    for endpoint in endpoints:
        placed.append((number[host_of(endpoint)], endpoint))
        number[host_of(endpoint)] += 1
    return tuple(endpoint for _, endpoint in sorted(placed, key=itemgetter(0)))
