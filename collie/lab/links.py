"""The data paths between joined machines, and the machine to restart for a dead one.

A machine can answer over SSH while a card of its data network hangs. One answer proves both directions of a link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from collie.lab.keys import run_on_each
from collie.lab.spec import LabSpec, MachineSpec, StateDir, neighbours

PROBE_BYTES = 4096  # RoCE's largest payload also finds a ring with room for small frames alone
PROBE_SECONDS = 15  # an emulated machine under load answers after some seconds
FRESH_SECONDS = 60  # a machine that has just booted, beside others, answers later
SSH_SECONDS = 30.0

# The ping is repeated, because a single one gives up after three seconds without address resolution.
_PROBE = (
    "{{ timeout {seconds} sh -c 'until ping -q -c 1 -w 5 -s {size} {address} >/dev/null 2>&1; do sleep 0.2; done' || "
    "echo dead {address}; }} &"
)


@dataclass(frozen=True, slots=True)
class DeadLink:
    """A data address of `target` that does not answer the joined machine `source`. Both machines answer over SSH."""

    source: str
    target: str
    address: str

    def __str__(self) -> str:
        return f"{self.source} does not reach {self.target} at {self.address}"


def dead_links(
    lab: LabSpec, state: StateDir, answering: Collection[str], *, fresh: bool = False
) -> tuple[DeadLink, ...]:
    """Send one packet each way over every link between answering machines. Return the links without an answer.

    It takes about a second. A dead link adds `PROBE_SECONDS`, or `FRESH_SECONDS` after a boot (`fresh`).
    """
    seconds = FRESH_SECONDS if fresh else PROBE_SECONDS
    probes = {one: peers for one in lab.machines if one.name in answering and (peers := _peers(lab, one, answering))}
    commands = {
        one: probe((address for peer in peers for address in peer.data_addresses), seconds)
        for one, peers in probes.items()
    }
    answers = run_on_each(commands, state, seconds + SSH_SECONDS)
    return tuple(
        DeadLink(one.name, peer.name, address)
        for one, peers in probes.items()
        for peer in peers
        for address in peer.data_addresses
        if f"dead {address}" in answers[one.name].output.splitlines()
    )


def probe(addresses: Iterable[str], seconds: int) -> str:
    """Return the shell command that prints `dead ADDRESS` for each silent address."""
    parts = (_PROBE.format(seconds=seconds, size=PROBE_BYTES, address=address) for address in addresses)
    return " ".join((*parts, "wait"))


def suspect(dead: Iterable[DeadLink], cleared: Collection[str]) -> str | None:
    """Return the machine with the most dead links, except those in `cleared`. Both ends of a link look alike."""
    ends = Counter(name for link in dead for name in (link.source, link.target) if name not in cleared)
    return min(ends, key=lambda name: (-ends[name], name), default=None)


def _peers(lab: LabSpec, one: MachineSpec, answering: Collection[str]) -> list[MachineSpec]:
    joined = (lab.machines[index] for index in neighbours(one.index, len(lab.machines)))
    return [peer for peer in joined if peer.name in answering]
