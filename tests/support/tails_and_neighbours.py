"""The page of evidence on latency and isolation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.support.results import Result

_HEAD = """# Evidence: tails and neighbours

Does a search find what makes messages late, and what holds up a neighbour? {campaigns} campaigns of {budget} each at
commit {commit}, on simulated subsystems with known causes. 20 of each kind and subsystem are asked for:

<!-- needs: time -->
```sh
python scripts/acceptance/tails_and_neighbours.py late healthy isolate wait verbs
python scripts/acceptance/tails_and_neighbours.py --page
```

"""
_SECTIONS = {
    "late": """## Late messages

Searches of the space `offered-load` on subsystems with planted delays, which cost latency and no throughput
([the mechanisms](../explanation/mechanisms.md)).

""",
    "healthy": """## Nothing is late

The same search on a subsystem without a cause. An anomaly is false if the noiseless model of its workload is normal.

""",
    "isolate": """## Which resource lets one tenant hold up another

Searches with the recipe `isolate`. A workload is an aggressor if the [victim](../explanation/victim.md) keeps at least
a fifth less than beside plain traffic of the same offered load. A resource counts if it limits the victim in at least
1 % of the random workloads that do so.

""",
    "wait": """## Which symptoms a victim with a load shows

The victim offers 10 Gbit/s. It can lose throughput, and its messages can wait.

""",
    "verbs": """## Which control verbs and errors hold up a neighbour

Searches of the space `control-verbs` with the recipe `isolate`, on a subsystem where four of them do. The cause of an
anomaly is the one without which the victim would keep most.

""",
}


def page(results: Sequence[Result], commit: str) -> str:
    """Return the page of the campaigns of one commit."""
    text = _HEAD.format(
        campaigns=len(results), budget=", ".join(sorted({one["budget"] for one in results})), commit=commit
    )
    for kind, section in _SECTIONS.items():
        own = [one for one in results if one["kind"] == kind]
        if own:
            text += f"{section}{_sums(own)}\n"
        if kind in ("isolate", "verbs") and own:
            text += f"\n{_resources(own)}\n"
        text += "\n" if own else ""
    return text.rstrip("\n") + "\n"


def _sums(results: Sequence[Result]) -> str:
    """Return what was found on each subsystem."""
    lines = []
    for subsystem in sorted({one["subsystem"] for one in results}):
        own = [one for one in results if one["subsystem"] == subsystem]
        planted = sum(len(one["planted"]) for one in own)
        found, explained = (_share(sum(len(one[what]) for one in own), planted) for what in ("found", "explained"))
        lines.append((subsystem, len(own), found, explained, sum(one["false"] for one in own)))
    return _table(("subsystem", "campaigns", "found", "explained", "false"), lines)


def _resources(results: Sequence[Result]) -> str:
    """Return the worst explained aggressor of each shared resource, and how many campaigns found one."""
    lines = []
    for subsystem in sorted({one["subsystem"] for one in results}):
        own = [one for one in results if one["subsystem"] == subsystem]
        planted = sorted({resource for one in own for resource in one["planted"]})
        counts = {what: Counter(resource for one in own for resource in one[what]) for what in ("found", "explained")}
        for resource in planted:
            sets = [each for one in own for each in one["anomalies"] if each["cause"] == resource and each["complete"]]
            worst = max(sets, key=lambda each: float(each["severity"]), default=None)
            of = len(own)
            lines.append(
                (
                    subsystem,
                    resource,
                    f"{counts['found'][resource]} of {of}",
                    f"{counts['explained'][resource]} of {of}",
                    f"{1.0 - worst['severity']:.0%}" if worst else "-",
                    f"`{worst['mfs']}`" if worst else "-",
                )
            )
    head = ("subsystem", "shared resource", "found in", "explained in", "the victim keeps", "worst aggressor")
    return _table(head, lines)


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})" if whole else "-"


def _table(head: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)
