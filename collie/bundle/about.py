"""The text of `--about`, for readers who do not know Collie."""

from __future__ import annotations

from collections.abc import Container, Iterator
from textwrap import fill

from collie.bundle.hosts import FORM, OPTIONAL
from collie.campaign.reproduce import Bundle
from collie.readings.victim import why_none
from collie.report.quantities import show
from collie.search.anomaly import Claim
from collie.search.phrases import differences
from collie.workloads.units import format_count, format_rate
from collie.workloads.workload import FIELD_NAMES, Connection, Workload

_WIDTH = 100
_HOSTS_FILE = """\
    {"version": 1,
     "hosts": {"alice": {"address": "10.0.0.1", "user": "root", "device": "mlx5_0", "data_address": "192.168.77.1",
                         "host_key": "ssh-ed25519 AAAA..."},
               "bob":   {"address": "10.0.0.2", "user": "root", "device": "mlx5_0", "data_address": "192.168.77.2"}}}"""


def about(bundle: Bundle, program: str) -> str:
    """Return the text, with `program` as the file's name in commands."""
    return "\n\n".join(_paragraphs(bundle, program))


def _paragraphs(bundle: Bundle, program: str) -> Iterator[str]:
    yield f"{bundle.name}: {bundle.symptom.words}, found on {bundle.found_on}"
    yield _wrapped(bundle.sentence)
    if bundle.likely:
        yield _wrapped(f"Likely: {bundle.likely}")
    if bundle.mfs.conditions:
        conditions = "\n".join(f"    {condition}" for condition in bundle.mfs.conditions)
        yield f"{_wrapped(_tested(bundle.claim))}\n{conditions}"
    anomaly = bundle.plan.anomaly
    named = {condition.dimension for condition in bundle.mfs.conditions}
    is_plain = bundle.siblings[anomaly] == anomaly
    which = "which is plain traffic itself" if is_plain else "where it is not its plain sibling"
    yield f"The workload, {which}:\n{_fields(anomaly, bundle.siblings[anomaly], named)}"
    yield from _needs(bundle)
    yield _wrapped(
        "Each run is preceded by one of its plain sibling: the same transport, opcode, message sizes and bytes in "
        "flight, everything else plain. What the sibling delivers is what the workload is held against."
        + (" Of the anomaly itself no healthy sibling exists, because it is plain traffic." * is_plain)
    )
    if bundle.victim and not why_none(anomaly):
        load = f"at {format_rate(bundle.victim_bps)}" if bundle.victim_bps else "with full send queues"
        way = "from host A to host B, or between their second ports" if anomaly.remote else "from host A to itself"
        yield _wrapped(
            f"A plain flow of another tenant, the victim, runs beside each workload, {load}: one queue pair {way}. "
            "What it keeps is held against what it keeps beside the plain sibling."
        )
    controls = " --controls" if bundle.mfs.conditions else ""
    yield f"""To run it, with two hosts of your own, host A first:

    python3 {program} --hosts root@10.0.0.1,mlx5_0,192.168.77.1 root@10.0.0.2,mlx5_0,192.168.77.2
    python3 {program} --hosts hosts.json --repeat 10{controls} --format json"""
    yield _wrapped(
        f"A host is {FORM}: where SSH finds it, its RDMA device, and the address of that device's network. FIELD is "
        f"one of {', '.join(OPTIONAL)}. Without gid_index the RoCE v2 GID of the data address is taken."
        + (" With --controls it is also run with each condition broken in turn, which must be normal." * bool(controls))
    )
    yield f"""hosts.json says the same of each host, and may pin its host key:

{_HOSTS_FILE}"""
    yield _wrapped(
        "Needed here: Python 3.11 and ssh; keys from an agent, ~/.ssh/config or identity_file, host keys in "
        "known_hosts. On the hosts: Linux, Python 3.9, and libibverbs1 (or python3-pyverbs), with the right to lock "
        "memory (`ulimit -l`). Nothing is installed: one file is copied to ~/.cache/collie and unpacked there. No port "
        f"is opened{_but_for_rdma_cm(bundle)}, no setting is changed, no counter is reset, and what is started ends "
        "when this program does. A run is stopped when a host sends pause for more than 0.2 s within a second."
    )
    yield "Exit codes: 0 reproduced, 1 not, 2 bad input, 3 could not measure, 4 inconclusive, 130 interrupted."
    yield f"""Exported {bundle.exported} by Collie {bundle.collie_version}, which reads it, too:

    collie reproduce {program} --hosts FILE"""


def _tested(claim: Claim) -> str:
    fresh = f"{claim.fresh_shows} of {format_count(claim.fresh_runs, 'fresh run')}" if claim.fresh_runs else ""
    if not claim.complete:
        shows = f"; it shows in {fresh} inside them" if fresh else ""
        return f"So far these conditions are known, not explained to the end: some may be missing or too narrow{shows}:"
    shows = f" (in {fresh})" if fresh else ""
    return (
        f"As far as tested, it shows while all of this holds{shows}, and goes when any one of it is broken, which "
        "--controls tests again:"
    )


def _needs(bundle: Bundle) -> Iterator[str]:
    if (on := bundle.plan.on) is None:
        return
    own = bundle.plan.anomaly
    yield _wrapped(
        "It shows only on queue pairs and memory that are made for more than it uses, so each run makes them: for "
        f"traffic with {differences(on.made_for, own)}."
    )
    if on.before:
        phases = "\n".join(f"    {number}. {differences(each, own)}" for number, each in enumerate(on.before, start=1))
        yield f"Each run has these phases first, where they are not the workload:\n{phases}"


def _but_for_rdma_cm(bundle: Bundle) -> str:
    runs = (bundle.plan.anomaly, *(control for control, _ in bundle.plan.controls))
    listens = any(run.connection is Connection.RDMA_CM for run in runs)
    return " but that of RDMA-CM while a run is set up" if listens else ""


def _fields(workload: Workload, sibling: Workload, named: Container[str]) -> str:
    kept = ("qp_type", "opcode", "messages")
    names = [name for name in FIELD_NAMES if name in kept or name in named or workload.get(name) != sibling.get(name)]
    width = max(map(len, names))
    return "\n".join(f"    {name:{width}}  {_value(name, workload, sibling)}" for name in names)


def _value(name: str, workload: Workload, sibling: Workload) -> str:
    value = show(name, workload.get(name))
    return value if workload.get(name) == sibling.get(name) else f"{value} (sibling {show(name, sibling.get(name))})"


def _wrapped(text: str) -> str:
    return fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
