"""Random phases on random set-ups, driven through two agents, and what is wrong with them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.agent_driver import AgentRefused, RemoteAgent, begin_phase, set_up
from collie.workloads.plan import flows
from collie.workloads.setup import TRAFFIC, SetUp, made_for_all
from collie.workloads.space import Space
from collie.workloads.workload import QpType, Workload, render

PATIENT = {"timeout": 18, "retry_cnt": 7, "rnr_retry": 7, "min_rnr_timer": 12}
"""An emulated CPU answers late. A broken queue pair ends a sequence, and tests nothing more."""
LEAST_RECEIVES = 16
"""With one receive, a full send queue takes longer than the drain may take: each message waits for a timer."""
TWO_HOSTS = {"requesters": 1, "responders": 1, "rails": 1, "remote": True}
SMALL = {"qps": 8, "mrs_per_qp": 4, "mr_bytes": 16384, "send_wq_depth": 64}
"""Most of some capacities: a machine of one CPU verifies and drains so much in a second."""
RECEIVED = ("wqe_batch", "messages", "sge_count", "sge_split", "recv_wq_depth", "mrs_per_qp", "qps")
"""Dimensions that decide the shape of receives."""
QP_TYPES = (QpType.RC, QpType.RC, QpType.UC, QpType.UD)
SAME_RECEIVES = 0.4
DRAWS = 400
DRAIN_SECONDS = 8.0
SAMPLE_SECONDS = 20.0
_TOPOLOGY = ("requesters", "responders", "rails", "remote")


def sequence(space: Space, rng: Random, length: int) -> tuple[Workload, list[Workload]]:
    """Draw a set-up and workloads that are phases of it."""
    qp_type = rng.choice(QP_TYPES)
    base = next(each for each in iter(lambda: _bounded(space, rng), None) if each.qp_type is qp_type)
    phases: list[Workload] = []
    for _ in range(DRAWS):
        drawn = _bounded(space, rng)
        changed = {name: drawn.get(name) for name in TRAFFIC}
        # With a shared receive queue, all receives have one shape. Without, some queues are to go on where they are.
        if base.srq or (phases and rng.random() < SAME_RECEIVES):
            changed |= {name: (phases or [base])[-1].get(name) for name in RECEIVED}
        wanted = base.with_(**changed)
        made_for = made_for_all([*phases, wanted])
        if (
            space.allows(wanted)
            and space.allows(made_for)
            and all(SetUp(made_for).misfit(each) is None for each in (*phases, wanted))
        ):
            phases.append(wanted)
            if len(phases) == length:
                return made_for, phases
    return sequence(space, rng, length)


def _bounded(space: Space, rng: Random) -> Workload:
    while True:
        drawn = space.sample(rng).with_(**PATIENT, **TWO_HOSTS)
        drawn = drawn.with_(**{name: min(most, drawn.get(name)) for name, most in SMALL.items()})
        drawn = drawn.with_(recv_wq_depth=max(LEAST_RECEIVES, drawn.recv_wq_depth))
        if space.allows(drawn):
            return drawn


@dataclass
class Outcome:
    """What came of sequences.

    Attributes:
        wrong: violations, each with its phase.
        ended: sequences that ended early, by reason.
        refused: what the device does not support, by reason.
        phases: by transport.
        resets: phases whose receives differ in shape from those before.
    """

    wrong: list[str] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)
    stragglers: int = 0
    messages: int = 0


class PhaseSequence:
    """One sequence of phases between two agents."""

    def __init__(self, agents: Sequence[RemoteAgent], outcome: Outcome, seconds: float) -> None:
        self._agents = list(agents)
        self._outcome = outcome
        self._seconds = seconds

    def run(self, name: str, made_for: Workload, phases: Sequence[Workload], data_path: str, processes: int) -> None:
        """Make the set-up, run the phases, destroy it, and note what is wrong."""
        with ThreadPoolExecutor(2) as pool:
            try:
                fields = for_agent(made_for)
                set_up(self._agents, fields, _ends(made_for), 60, data_path=data_path, processes=processes)
                for number, workload in enumerate(phases, start=1):
                    if not self._phase(f"{name}, phase {number}, {data_path} x {processes}", workload, pool):
                        break
            except AgentRefused as refused:
                if refused.error["kind"] == "unsupported":
                    self._outcome.refused[refused.error["message"]] += 1
                elif refused.error["kind"] == "timeout" and refused.error["step"] == "stop":
                    self._outcome.ended["a storm of retries kept the host from stopping"] += 1
                else:
                    self._outcome.wrong.append(f"{name}: {refused}: {made_for}")
            left = [agent.ask("destroy", deadline_seconds=60)["qps_left"] for agent in self._agents]
            if left != [0, 0]:
                self._outcome.wrong.append(f"{name}: {left} queue pairs are left: {made_for}")

    def _phase(self, name: str, workload: Workload, pool: ThreadPoolExecutor) -> bool:
        """Run a phase. Return whether the set-up stands."""
        for agent in self._agents:
            agent.samples.clear()
        begin_phase(self._agents, for_agent(workload), _ends(workload), 60, 0.1, verify=True)
        time.sleep(self._seconds)

        def stop(agent: RemoteAgent) -> dict[str, Any]:
            return agent.ask("stop", drain_seconds=DRAIN_SECONDS, deadline_seconds=DRAIN_SECONDS + 10)

        requesters = {"ab".index(flow.requester) for flow in flows(workload)}
        asked = [pool.submit(stop, self._agents[place]) for place in sorted(requesters)]
        wait(asked)  # a request to an agent must not overtake the answer to another
        stopped = [each.result() for each in asked]
        stopped += [stop(agent) for place, agent in enumerate(self._agents) if place not in requesters]
        self._outcome.phases[f"{workload.qp_type}"] += 1
        self._outcome.stragglers += sum(each["stragglers"] for each in stopped)
        if any(each["failed_qps"] for each in stopped):
            self._outcome.ended["a queue pair failed"] += 1
            return False
        if not all(each["drained"] for each in stopped):
            self._outcome.ended["not drained in time"] += 1
            return False
        self._check(name, workload)
        return True

    def _check(self, name: str, workload: Workload) -> None:
        totals: dict[str, Any] = {}
        for agent in self._agents:
            before, late = agent.samples[-1]["n"], time.monotonic() + SAMPLE_SECONDS
            while agent.samples[-1]["n"] < before + 2:  # one that began after everything had stopped
                if time.monotonic() > late:
                    raise TimeoutError(f"{name}: {agent.host.name} sends no samples any more: {agent.events}")
                time.sleep(0.02)
            totals |= agent.samples[-1]["flows"]
        completed = {}
        expected = {f"{flow.name}/{role}" for flow in flows(workload) for role in ("requester", "responder")}
        if set(totals) != expected:
            self._outcome.wrong.append(f"{name}: ends {sorted(totals)}, not {sorted(expected)}: {workload}")
        for flow in flows(workload):
            sent, got = totals[f"{flow.name}/requester"], totals[f"{flow.name}/responder"]
            completed[f"{flow.name}/responder"] = sent["qp_messages"]["min"]
            arrived = sum(end["delivered_messages"] or 0 for end in (sent, got)) + (sent["returned_messages"] or 0)
            posted = sent["posted_messages"]
            self._outcome.messages += arrived
            exact = arrived == posted > 0 if workload.qp_type == "RC" else arrived <= posted
            estimated = workload.qp_type == "UC" and not workload.opcode.consumes_receive
            if posted != sent["completed_messages"] or not (exact or estimated):
                self._outcome.wrong.append(f"{name}: {flow.name} posted {posted}, arrived {arrived}: {workload}")
        for agent in self._agents:
            for key, found in agent.ask("verify", completed=completed, deadline_seconds=60)["flows"].items():
                if found and found["wrong_bytes"]:
                    self._outcome.wrong.append(f"{name}: {key}: {found}: {workload}")


def _ends(workload: Workload) -> list[list[dict[str, str]]]:
    own: list[list[dict[str, str]]] = [[], []]
    for flow in flows(workload):
        own["ab".index(flow.requester)].append({"flow": flow.name, "role": "requester"})
        own["ab".index(flow.responder)].append({"flow": flow.name, "role": "responder"})
    return own


def for_agent(workload: Workload) -> dict[str, Any]:
    """Return a workload as an agent is told it."""
    return {name: value for name, value in render(workload).items() if name not in _TOPOLOGY}
