"""A campaign on the lab that faults strike."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random

from collie.errors import LabError
from tests.support.faults.kills import CAMPAIGN
from tests.support.faults.lab_hosts import LabHosts, Unanswered
from tests.support.faults.processes import Controller, Hung, collie_command
from tests.support.faults.records import rows
from tests.support.faults.trial import Missed, Trial

SILENCE_SECONDS = 20.0
"""Within which nothing of a controller that has died is left: its agents' lease is 6 s, and emulated CPUs are slow."""
GO_ON_SECONDS = 150.0
"""Within which a controller goes on, or gives up: it waits for a host for up to half a minute, and then tries again."""
HEAL_SECONDS = 120.0
LIGHT = (
    *("--limit", "qps<=16", "--fix", "requesters=1", "--fix", "responders=1", "--fix", "remote=true"),
    *("--fix", "qp_type=RC", "--fix", "opcode=WRITE"),
)
"""Workloads that an emulated machine sets up within a few seconds, as a fault should not wait for them; from one host
to the other; of one opcode, so that a campaign calibrates for ten runs and not for a hundred."""
PURPOSE, OUTCOME, RESULT, VERDICT = 1, 2, 5, 7


@dataclass
class LabCampaign:
    """A campaign on lab machines, and the process that runs it from fault to fault.

    Args:
        trial: of the campaign.
        hosts: of the lab.

    Attributes:
        controller: the process; None before the first fault and after one that ended it.
    """

    trial: Trial
    hosts: LabHosts
    controller: Controller | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def rng(self) -> Random:
        """Of the trial."""
        return self.trial.rng

    def live(self) -> Controller:
        """Return a process that has just put a run on record.

        Raises:
            Missed: it ended before.
        """
        if self.controller is None or not self.controller.running:
            self.leave()
            self.controller = self._stack.enter_context(self.trial.controller())
        before = len(rows(self.trial.campaign))
        self.trial.wait_for(self.controller, lambda: len(rows(self.trial.campaign)) > before)
        time.sleep(self.rng.uniform(0.0, 3.0))  # into the next run
        self.trial.note()
        return self.controller

    def leave(self) -> None:
        """Let go of a process that has ended."""
        self._stack.close()
        self.controller = None

    def victim(self) -> str:
        """Choose a host."""
        return self.rng.choice(self.hosts.names)

    def said(self) -> tuple[str, ...]:
        """Return everything that the campaign has said of itself: log, results of failed runs, standard error."""
        failed = [str(row[RESULT]) for row in rows(self.trial.campaign).values() if row[OUTCOME] != "measured"]
        return self.trial.log, "\n".join(failed), self.controller.said if self.controller else ""

    def said_since(self, before: Sequence[str]) -> str:
        """Return what it has said since."""
        return "\n".join(now[len(then) :] for now, then in zip(self.said(), before, strict=True))

    def goes_on(self, cause: str, before: Sequence[str], runs: int = 2) -> str:
        """Wait until the controller goes on or gives up; the cause has to be in what it has said since.

        Args:
            cause: pattern of it.
            before: what had been said before the fault.
            runs: that have to be put on record after the fault.
        """
        trial, controller = self.trial, self.controller
        assert controller is not None
        at = len(rows(trial.campaign))
        deadline = time.monotonic() + GO_ON_SECONDS
        while controller.running and len(rows(trial.campaign)) < at + runs and time.monotonic() < deadline:
            time.sleep(0.2)
        more = len(rows(trial.campaign)) - at
        new = self.said_since(before)
        if controller.running:
            trial.expect(more >= runs, f"{more} runs within {GO_ON_SECONDS:g} s: {new[-500:]}")
            trial.expect(names(cause, new), f"went on and names no cause ({cause}): {new[-800:]}")
            trial.note()
            return "went on; the record names it"
        ended = trial.end(controller)
        trial.expect(ended.code == 3, f"exit {ended.code}: {ended.err[-500:]}")
        trial.expect(names(cause, ended.err), f"ended and names no cause ({cause}): {ended.err[-500:]}")
        said = trial.inspect()
        trial.expect(said.get("state") == "failed" and names(cause, str(said.get("error"))), f"status: {said}")
        self.leave()
        return "ended with exit 3, naming it; resumed"

    def heal(self) -> None:
        """Wait until the lab is well again."""
        self.trial.expect(self.hosts.wait_until_healed(HEAL_SECONDS), f"the lab has not healed in {HEAL_SECONDS:g} s")

    def check(self) -> None:
        """Check what must hold after every fault."""
        self.trial.check_reported()
        if self.controller is None or not self.controller.running:
            left = self.hosts.wait_until_nothing_is_left(SILENCE_SECONDS)
            self.trial.expect(not left, f"left on hosts without a controller: {left}")
            self.trial.check()
            return
        crowded = self._wait_until_each_has_one_agent(SILENCE_SECONDS)
        self.trial.expect(not crowded, f"left beside the agents at work: {crowded}")

    def _wait_until_each_has_one_agent(self, seconds: float) -> list[str]:
        """Wait until no host has more agents than the controller uses; return those that have when time is up."""
        deadline = time.monotonic() + seconds
        while True:
            crowded = [name for name in self.hosts.names if len(self.hosts.first_agents(name)) > 1]
            if not crowded or time.monotonic() > deadline:
                return crowded
            time.sleep(1.0)

    def end_anyhow(self) -> None:
        """Kill the process, if there is one."""
        if self.controller is not None:
            self.controller.process.kill()
        self.leave()

    def finish(self) -> None:
        """Interrupt the process, go on for two more runs, and look that nothing is left."""
        with noted(self.trial):
            self._finish()

    def _finish(self) -> None:
        if self.controller is not None and self.controller.running:
            self.controller.send(signal.SIGTERM)
            ended = self.trial.end(self.controller)
            self.trial.expect(ended.code == 130, f"exit {ended.code} after SIGTERM: {ended.err[-500:]}")
        self.leave()
        budget = f"{len(rows(self.trial.campaign)) + 2}runs"
        words = ("search", "--resume", CAMPAIGN, "--format", "json", "--budget", budget)
        ended = collie_command(words, self.trial.folder, self.trial.deadline_seconds)
        self.trial.expect(ended.code == 0, f"to the end: exit {ended.code}: {ended.err[-500:]}")
        if ended.code == 0:
            left = json.loads(ended.out)["safety"]["queue_pairs_left"]
            self.trial.expect(set(left.values()) == {0}, f"queue pairs left: {left}")
        self.check()
        self.trial.inspect()


def names(cause: str, text: str) -> bool:
    return re.search(cause, text) is not None


@contextmanager
def noted(trial: Trial) -> Iterator[None]:
    """Take for a violation whatever keeps the suite from going on with a fault, and go on with the next."""
    try:
        yield
    except Missed:
        trial.expect(False, "the controller ended before the fault")
    except (Hung, Unanswered, LabError) as amiss:
        trial.expect(False, str(amiss))
