"""Faults that strike campaigns on lab machines: real verbs, real SSH, real machines that die.

Each function strikes once, lets its fault heal, and returns in a few words what came of it. A controller that lives
through a fault goes on to the next one; one that ended is resumed.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tests.support.faults.disks import cause_named, filled
from tests.support.faults.lab_campaign import OUTCOME, PURPOSE, SILENCE_SECONDS, VERDICT, LabCampaign, names, noted
from tests.support.faults.lab_hosts import Process
from tests.support.faults.processes import collie_command
from tests.support.faults.records import rows
from tests.support.faults.trial import Missed

_AIMS = 5
_BETWEEN_HOSTS_SECONDS = 30.0


LabFault = Callable[[LabCampaign], str]

# --- The controller ---------------------------------------------------------------------------------------------------


def controller_killed(campaign: LabCampaign) -> str:
    """SIGKILL during a run: its agents are silent and gone within seconds."""
    controller = campaign.live()
    controller.send(signal.SIGKILL)
    campaign.trial.end(controller)
    campaign.leave()
    left = campaign.hosts.wait_until_nothing_is_left(SILENCE_SECONDS)
    campaign.trial.expect(not left, f"left {SILENCE_SECONDS:g} s after SIGKILL: {left}")
    campaign.trial.inspect()
    return "hosts silent and empty; resumed"


def controller_stopped(campaign: LabCampaign) -> str:
    """SIGSTOP for longer than the agents' lease, and SIGCONT."""
    controller, before = campaign.live(), campaign.said()
    controller.send(signal.SIGSTOP)
    try:
        left = campaign.hosts.wait_until_nothing_is_left(SILENCE_SECONDS)
        campaign.trial.expect(not left, f"left {SILENCE_SECONDS:g} s after SIGSTOP: {left}")
        campaign.trial.inspect()
    finally:
        controller.send(signal.SIGCONT)
    return campaign.goes_on(r"agent|lease|cannot be reached", before)


def controller_interrupted(campaign: LabCampaign) -> str:
    """SIGINT or SIGTERM during a run, once or twice."""
    controller = campaign.live()
    number = campaign.rng.choice([signal.SIGINT, signal.SIGTERM])
    controller.send(number)
    if campaign.rng.random() < 0.3:
        time.sleep(campaign.rng.uniform(0.0, 1.0))
        controller.send(number)
    ended = campaign.trial.end(controller)
    campaign.trial.expect(ended.code == 130, f"exit {ended.code} after {number.name}: {ended.err[-500:]}")
    said = campaign.trial.inspect()
    campaign.trial.expect(said.get("state") == "interrupted", f"status says {said.get('state')}")
    campaign.leave()
    return "cleaned up, exit 130; resumed"


def disk_full(campaign: LabCampaign) -> str:
    """The disk of the campaign fills during a run."""
    controller = campaign.live()
    with filled(campaign.trial.folder, campaign.rng.choice([0, 4096])):
        ended = campaign.trial.end(controller)
        campaign.trial.expect(campaign.trial.is_readable(), "the campaign could not be read on a full disk")
    campaign.leave()
    return cause_named(campaign.trial, ended, r"disk is full|No space left")


def two_controllers(campaign: LabCampaign) -> str:
    """A second campaign begins on the same hosts, and a second process on the same campaign."""
    controller = campaign.live()
    refused = campaign.trial.ask(*campaign.trial.course.resume)
    named = f"in use by process {controller.process.pid}"
    campaign.trial.expect(refused.code == 2 and named in refused.err, f"on one campaign: {refused}")
    words = ("search", "--hosts", str(campaign.hosts.inventory), "--budget", "1runs", "--campaign", "second")
    second = collie_command(words, campaign.trial.folder, campaign.trial.deadline_seconds)
    campaign.trial.expect(not second.traceback, f"a traceback: {second.err[-800:]}")
    refusal = second.code == 3 and names("is in use", second.err)
    campaign.trial.expect(refusal or second.code == 0, f"on one host: exit {second.code}: {second.err[-500:]}")
    campaign.goes_on("", campaign.said(), runs=1)
    shutil.rmtree(campaign.trial.folder / "second", ignore_errors=True)
    if not refusal:  # it looks for about a second, and a controller is silent between its runs
        return "one on the campaign was refused; one on the hosts slipped in between two runs; the first went on"
    return "both were refused, naming who is there; the first went on"


# --- Hosts ------------------------------------------------------------------------------------------------------------


def agent_killed(campaign: LabCampaign) -> str:
    """SIGKILL of a process of the agent on one host: itself, or what drives the traffic."""
    campaign.live()
    before, name = campaign.said(), campaign.victim()
    for _ in range(_AIMS):
        agents = campaign.hosts.agents(name)
        # What drives the traffic ends with its run: it may be gone by itself before the order to kill it arrives.
        if agents and campaign.hosts.kill(name, [campaign.rng.choice(agents).pid], signal.SIGKILL):
            return campaign.goes_on(rf"{name}|died|engine", before)
    raise Missed


def agent_stopped(campaign: LabCampaign) -> str:
    """SIGSTOP of the agent on one host for longer than its controller waits."""
    return _stopped(campaign, campaign.hosts.agents, 25.0)


def agent_stuck(campaign: LabCampaign) -> str:
    """SIGSTOP of the agent alone, while what drives the traffic goes on: that has to end by itself."""
    campaign.live()
    before, name = campaign.said(), campaign.victim()
    for agent in campaign.hosts.first_agents(name):
        campaign.hosts.briefly(name, f"kill -STOP {agent.pid}", f"kill -CONT {agent.pid}", 25.0)
        left = campaign.hosts.wait_until_childless(name, agent.pid, SILENCE_SECONDS)
        campaign.trial.expect(not left, f"left {SILENCE_SECONDS:g} s after its agent stood still: {left}")
        return campaign.goes_on(rf"{name}|timeout", before)
    raise Missed


def sshd_killed(campaign: LabCampaign) -> str:
    """SIGKILL of the SSH server's process that serves the controller on one host."""
    campaign.live()
    before, name = campaign.said(), campaign.victim()
    sessions = campaign.hosts.sessions(name)
    if not sessions:
        raise Missed
    campaign.hosts.kill(name, [each.pid for each in sessions], signal.SIGKILL)
    return campaign.goes_on(rf"{name}", before)


def sshd_stopped(campaign: LabCampaign) -> str:
    """SIGSTOP of the same, for some seconds or for longer than the agents' lease."""
    return _stopped(campaign, campaign.hosts.sessions, 15.0)


def _stopped(campaign: LabCampaign, processes: Callable[[str], Sequence[Process]], seconds: float) -> str:
    campaign.live()
    before, name = campaign.said(), campaign.victim()
    pids = " ".join(str(each.pid) for each in processes(name))
    if not pids:
        raise Missed
    campaign.hosts.briefly(name, f"kill -STOP {pids}", f"kill -CONT {pids}", seconds)
    return campaign.goes_on(rf"{name}|timeout", before)


def machine_killed(campaign: LabCampaign) -> str:
    """SIGKILL of a virtual machine; `collie lab up` starts it again."""
    campaign.live()
    before, name = campaign.said(), campaign.victim()
    campaign.hosts.signal_machine(name, signal.SIGKILL)
    try:
        return campaign.goes_on(name, before)
    finally:
        campaign.hosts.bring_back()


def machine_stopped(campaign: LabCampaign) -> str:
    """SIGSTOP of a virtual machine, for longer than the controller takes for a hiccup, and SIGCONT."""
    campaign.live()
    before, name = campaign.said(), campaign.victim()
    campaign.hosts.signal_machine(name, signal.SIGSTOP)
    try:
        time.sleep(campaign.rng.uniform(12.0, 18.0))
    finally:
        campaign.hosts.signal_machine(name, signal.SIGCONT)
    return campaign.goes_on(rf"{name}|timeout", before)


def machine_clock_stepped(campaign: LabCampaign) -> str:
    """The time of day of one machine jumps by an hour to a year, and comes back."""
    campaign.live()
    name = campaign.victim()
    seconds = campaign.rng.choice([-1, 1]) * campaign.rng.choice([3_600, 86_400, 31_557_600])
    campaign.hosts.run(name, f"date -s @$(( $(date +%s) + {seconds} ))")
    try:
        campaign.goes_on("", campaign.said())
    finally:
        campaign.hosts.run(name, f"date -s @{int(time.time())}")
    return "went on: nothing on hosts depends on the time of day"


# --- Networks ---------------------------------------------------------------------------------------------------------


def controller_network_cut(campaign: LabCampaign) -> str:
    """Nothing passes between controller and one host for longer than the agents' lease."""
    campaign.live()
    before, name = campaign.said(), campaign.victim()
    campaign.hosts.shape(name, "loss 100%", campaign.rng.uniform(12.0, 18.0), management=True)
    return campaign.goes_on(rf"{name}|timeout", before)


def controller_network_slow(campaign: LabCampaign) -> str:
    """What a host sends to the controller takes longer."""
    campaign.live()
    name = campaign.victim()
    delay = campaign.rng.choice([50, 200, 800])
    campaign.hosts.shape(name, f"delay {delay}ms", 12.0, management=True)
    outcome = campaign.goes_on("", campaign.said())
    return "went on: later, and nothing else" if outcome.startswith("went on") else outcome


def host_network_cut(campaign: LabCampaign) -> str:
    """Nothing passes between the hosts for some runs."""
    return _between_hosts(campaign, "loss 100%")


def host_network_lossy(campaign: LabCampaign) -> str:
    """What the hosts send to each other comes late, and a part of it never."""
    return _between_hosts(campaign, campaign.rng.choice(["loss 30%", "delay 300ms", "loss 10% delay 50ms"]))


def _between_hosts(campaign: LabCampaign, netem: str) -> str:
    controller = campaign.live()
    campaign.trial.wait_for(controller, lambda: _searches(rows(campaign.trial.campaign)))
    seen = set(rows(campaign.trial.campaign))
    for name in campaign.hosts.names:
        campaign.hosts.shape(name, netem, _BETWEEN_HOSTS_SECONDS, management=False)
    until = time.monotonic() + _BETWEEN_HOSTS_SECONDS
    outcome = campaign.goes_on("", campaign.said(), runs=4)
    # A run whose plain sibling met the same network is normal beside it, and says nothing.
    while not any(map(_is_odd, (new := _new(campaign, seen)).values())) and time.monotonic() < until:
        time.sleep(0.5)
    said = [(number, row[PURPOSE], row[OUTCOME], row[VERDICT]) for number, row in sorted(new.items())]
    campaign.trial.expect(any(map(_is_odd, new.values())), f"{netem} between hosts shows in none of the runs {said}")
    return (
        "went on; runs meanwhile say that they failed, or what was lost" if outcome.startswith("went on") else outcome
    )


def _searches(on_record: Mapping[int, Sequence[Any]]) -> bool:
    """Whether the last run was of the search; calibration and siblings are not judged."""
    return bool(on_record) and on_record[max(on_record)][PURPOSE] in ("search", "confirm", "extract")


def _new(campaign: LabCampaign, seen: Collection[int]) -> dict[int, Sequence[Any]]:
    return {number: row for number, row in rows(campaign.trial.campaign).items() if number not in seen}


def _is_odd(row: Sequence[Any]) -> bool:
    """Whether a run was not measured, or found anything but normal."""
    verdict = row[VERDICT]
    return row[OUTCOME] != "measured" or (verdict is not None and json.loads(verdict)["outcome"] != "normal")


LAB: Mapping[str, LabFault] = {
    fault.__name__: fault
    for fault in (
        controller_killed,
        controller_stopped,
        controller_interrupted,
        disk_full,
        two_controllers,
        agent_killed,
        agent_stopped,
        agent_stuck,
        sshd_killed,
        sshd_stopped,
        machine_killed,
        machine_stopped,
        machine_clock_stepped,
        controller_network_cut,
        controller_network_slow,
        host_network_cut,
        host_network_lossy,
    )
}
"""Every kind of fault that strikes lab campaigns."""

SURVIVED = (
    "two_controllers",
    "machine_clock_stepped",
    "controller_network_slow",
    "host_network_cut",
    "host_network_lossy",
)
"""Kinds that end neither controller nor agents."""


def strike(campaign: LabCampaign, kind: str) -> str:
    """Strike once, heal and check; what should not have been is in the trial's violations."""
    outcome = "came too late, or hung"
    with noted(campaign.trial):
        try:
            outcome = LAB[kind](campaign)
        except BaseException:
            campaign.end_anyhow()
            raise
    with noted(campaign.trial):
        campaign.heal()
        campaign.check()
    return outcome
