"""The page of evidence on searches: which campaigns it asks for, and what it says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collie.workloads.units import format_count
from tests.support.results import Result
from tests.support.search_tables import (
    best_schedule,
    by_contender,
    clock_name,
    clocks_table,
    minutes_table,
    prototype_table,
    schedules_table,
    summary_table,
)


@dataclass(frozen=True)
class Part:
    """Campaigns that one section of the page reports: each contender on each clock with each seed."""

    name: str
    contenders: tuple[str, ...]
    phases: tuple[int, ...]
    seeds: range


SCHEDULES = (
    (1.0, 0.1, 0.5, 1, "group"),
    (1.0, 0.1, 0.5, 2, "group"),
    (1.0, 0.1, 0.9, 1, "group"),
    (1.0, 0.1, 0.9, 5, "group"),
    (0.1, 0.01, 0.9, 1, "group"),
    (10.0, 1.0, 0.9, 1, "group"),
    (1.0, 0.1, 0.9, 1, "one"),
)
"""First temperature, last one, factor between them, runs at each, and step. Stages of 4 to 110 runs."""
_CHANGES = tuple(
    f"+schedule.start={start}+schedule.end={end}+schedule.decay={decay}"
    f'+schedule.runs_per_temperature={runs}+schedule.step="{step}"'
    for start, end, decay, runs, step in SCHEDULES
)
_CONTENDERS = (
    *("guided", "guided+explain=false", "random"),
    *("nsdi22-diag", "nsdi22-perf", "nsdi22-diag-no-mfs", "nsdi22-perf-no-mfs"),
)
_GUIDED = (
    *("guided", "guided+explain_after_sightings=0", "guided+guide.random_share=1.0"),
    *("guided+explain=false", "guided+explain=false+guide.random_share=1.0"),
)
_CLOCKS = (1, 8)
PARTS = {
    part.name: part
    for part in (
        Part("clocks", _CONTENDERS, _CLOCKS, range(1, 21)),
        Part("schedules", tuple(f"nsdi22-diag{changes}" for changes in _CHANGES), _CLOCKS, range(201, 221)),
        Part("schedules-no-mfs", tuple(f"nsdi22-diag-no-mfs{each}" for each in _CHANGES), _CLOCKS, range(201, 221)),
        Part("guided", _GUIDED, (8,), range(1, 11)),
    )
}
"""The parts of the page of evidence."""


def of_one_commit(results: Sequence[Result], part: Part) -> list[Result]:
    """Return the results of the latest commit that has some of every contender, else of the one that has most."""
    by_commit: dict[str, list[Result]] = {}
    for result in results:
        by_commit.setdefault(result["commit"], []).append(result)
    cases = len(part.contenders) * len(part.phases)
    whole = [
        group for group in by_commit.values() if len({(one["contender"], one["phases"]) for one in group}) == cases
    ]
    return whole[-1] if whole else max(by_commit.values(), key=len, default=[])


def page(by_part: Mapping[Part, Sequence[Result]], prototype: Sequence[Result]) -> str:
    """Return the page of evidence. A part without results says so, and the released prototype is left out."""
    sections = {part.name: (part, results) for part, results in by_part.items()}
    blocks = [PAGE_HEAD]
    part, results = sections["clocks"]
    blocks += ["## Subsystem F", _provenance(part, results)]
    blocks += [clocks_table(results)] if results else []
    blocks.append(TERMS)
    for phases in part.phases:
        same = [one for one in results if one["phases"] == phases]
        if same:
            blocks += [f"### {clock_name(phases).capitalize()}", minutes_table(same), summary_table(same)]
    if results:
        blocks.append("![Mechanisms found over time](../images/search-F.png)")
    if prototype:
        blocks += ["## The released prototype", PROTOTYPE_TEXT, _prototype_provenance(prototype)]
        blocks += [minutes_table(prototype), prototype_table(prototype)]
    part, results = sections["schedules"]
    blocks += ["## The schedule of the paper's algorithm", SCHEDULE_TEXT, _provenance(part, results)]
    blocks += _schedules(part, results)
    part, results = sections["schedules-no-mfs"]
    blocks += ["Without explanations, a campaign has many more runs of the search:", _provenance(part, results)]
    blocks += _schedules(part, results)
    part, results = sections["guided"]
    if len(by_contender(results)) < len(part.contenders):
        results = []  # the comparison of the clocks has some of its campaigns
    blocks += ["## The parts of `guided`", GUIDED_TEXT, _provenance(part, results)]
    blocks += [minutes_table(results), summary_table(results)] if results else []
    return "\n\n".join((*blocks, OTHERS)) + "\n"


def _schedules(part: Part, results: Sequence[Result]) -> list[str]:
    lines = []
    for phases in part.phases:
        if same := [one for one in results if one["phases"] == phases]:
            lines.append(f"* {clock_name(phases).capitalize()}: {best_schedule(same)}")
    return [schedules_table(results), "\n".join(lines)] if lines else []


def _provenance(part: Part, results: Sequence[Result]) -> str:
    """Return commit, command and seeds of a part, and how many campaigns of it have run."""
    asked = len(part.contenders) * len(part.phases) * len(part.seeds)
    seeds = f"seeds {part.seeds[0]} to {part.seeds[-1]}"
    command = f"<!-- needs: time -->\n```sh\npython benchmarks/search_efficiency.py --evidence {part.name}\n```"
    if not results:
        return f"{command}\n\nNot measured yet: {asked} campaigns, {seeds}."
    had = sorted({one["seed"] for one in results})
    ran = f"seeds {had[0]} to {had[-1]}" if had[1:] else f"seed {had[0]}"
    rest = f", of {asked} that the command asks for ({seeds})" if len(results) < asked else ""
    return f"{command}\n\n{format_count(len(results), 'campaign')} at commit {results[0]['commit']}, {ran}{rest}."


def _prototype_provenance(results: Sequence[Result]) -> str:
    seeds = sorted({one["seed"] for one in results})
    command = (
        "git clone https://github.com/bytedance/Collie prototype\n"
        "python benchmarks/prototype.py prototype --output benchmarks/results/prototype-F.jsonl"
    )
    campaigns = f"{len(results)} searches at commit {results[0]['commit']}, seeds {seeds[0]} to {seeds[-1]}."
    return f"<!-- needs: network -->\n```sh\n{command}\n```\n\n{campaigns}"


PAGE_HEAD = """# Evidence: the search

Which search finds more anomalies, and how soon? All campaigns run on simulated subsystem F, which has 13 planted
mechanisms. Each has 10 h of testbed time. [How Collie searches](../explanation/search.md) explains the strategies.
`python benchmarks/search_efficiency.py --evidence` makes this page again: it runs what the raw results,
`benchmarks/results/search-F.jsonl`, lack at the present commit, and writes the page.

A mechanism is *found* when the first anomaly that is reported on its own and credited to it is confirmed. It is
*explained* if the minimal feature set (MFS) of such an anomaly is complete. There are two clocks. With one run per
set-up, as in the paper, every run costs 20 to 60 s. With 8 phases per set-up, a further workload that fits a set-up
costs 8 s. Confirmations take a set-up of their own on both.

`guided` was tuned on seeds from 1001 on. The schedule of `nsdi22-diag` and `nsdi22-perf` was chosen on seeds 101 to
112. Its temperatures are those of `nsdi22`, which were chosen on seeds 1 to 12."""

TERMS = """The tables of a clock follow. Column k of the first has the minutes to the k-th mechanism: the median of
all seeds, in parentheses the quartiles. A seed that did not get there counts with more than ten hours (`>`), and
[n] is the number of seeds that did. Rows in italics have the paper's figures, *mean (standard deviation)*, on its
own subsystem F.

* **False** counts the confirmed anomalies that no mechanism causes, over all seeds.
* **Runs of the search** are those that the strategy proposed. All other runs are plain siblings, confirmations, and
  explanations.

All contenders share the judge and the confirmation. Those that explain anomalies use Collie's extraction, which
also measures the claim of each set. `random`, `guided with explain=false` and the variants `-no-mfs` explain nothing,
so their whole budget finds. They tell how good a search is, and the others what its explanations cost. With phases,
`random` draws further workloads that fit the set-up, and annealing takes further neighbours of its first one."""

PROTOTYPE_TEXT = """The code that was released with the paper ([bytedance/Collie](https://github.com/bytedance/Collie))
proposes points, decides what is anomalous and looks for minimal feature sets, all in its own space of at most 24 queue
pairs. The benchmark runs its points on F, one run per set-up. Its throughput mode (`perf`) is what the release starts.
Its diagnostic mode reads the simulator's diagnostic counters, for the release has none. What is anomalous is decided by
the bars of its example at F's line rate, and by 0.1 % of pause sent or received.

The comparison favours the prototype. A point has two traffics with parameters of their own, and a workload has one
kind. So a point with unlike traffics runs as two workloads, costs one run, and shows the worse reading. A mechanism is
found at the first anomalous reading that the ground truth credits to it: nothing confirms it, and no set is held
against the truth."""

SCHEDULE_TEXT = """The paper gives no temperatures, and leaves open what one search dimension is: one of its four
(step `group`) or one of the space (step `one`). A *stage* drives one counter from the first temperature to the
last. Ten hours are about 900 runs, 100 for each of the paper's nine diagnostic counters. Here most of them explain.
These are campaigns of `nsdi22-diag` with other schedules, on seeds that no other section uses."""

GUIDED_TEXT = """`explain_after_sightings=0` explains each anomaly at once. `guide.random_share=1.0` learns nothing:
its values are random, half of them from the ends of their ranges."""

OTHERS = """## Other subsystems and noise

[Findings](findings.md) has campaigns of `guided` on other subsystems, and with noise, outliers and drift. The
options `--subsystem`, `--noise` and `--space` of the benchmark compare contenders there. The space
`benchmarks/wide-space.yaml` adds nine dimensions that do not affect the subsystem."""
