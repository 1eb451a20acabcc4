"""What campaigns of `benchmarks/search_efficiency.py` show: tables, the figure and the page of evidence.

A result is the plain object of one campaign. The *clock* says what further workloads cost: with one phase each has a
set-up of its own, as in the paper. With more, those that fit a set-up cost 8 s.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collie.workloads.units import format_count
from tests.support.results import Result


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
_CONTENDERS = ("guided", "random", "nsdi22-diag", "nsdi22-perf", "nsdi22-diag-no-mfs", "nsdi22-perf-no-mfs")
_GUIDED = ("guided", "guided+explain_after_sightings=0", "guided+guide.random_share=1.0")
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

Pair = tuple[int, int]
PAPER: Mapping[str, tuple[str, Sequence[Pair]]] = {
    "random": ("Random", [(3, 3), (6, 3), (10, 6), (34, 24), (210, 73), (390, 111), (454, 0)]),
    "optuna": ("BO", [(1, 0), (21, 2), (55, 6), (107, 8), (190, 42), (251, 90), (296, 7), (318, 7)]),
    "nsdi22-perf-no-mfs": (
        "w/o MFS (Perf)",
        [(3, 3), (11, 5), (34, 13), (60, 16), (158, 100), (232, 67), (372, 118), (476, 122), (511, 77)],
    ),
    "nsdi22-diag-no-mfs": (
        "w/o MFS (Diag)",
        [(3, 2), (13, 7), (31, 14), (75, 36), (151, 35), (283, 91), (326, 85), (434, 48), (459, 0)],
    ),
    "nsdi22-perf": (
        "Collie (Perf)",
        [(2, 1), (20, 6), (42, 7), (74, 8), (111, 22), (162, 35), (184, 36), (308, 110), (364, 122), (393, 54),
         (411, 0)],
    ),
    "nsdi22-diag": (
        "Collie (Diag)",
        [(3, 3), (14, 9), (24, 15), (54, 27), (79, 25), (129, 38), (197, 45), (226, 39), (290, 82), (352, 57),
         (418, 33), (490, 36), (563, 40)],
    ),
}  # fmt: skip
"""Mean minutes to the k-th anomaly on F and their standard deviation (NSDI '22, figure 4)."""


def minutes_table(results: Sequence[Result]) -> str:
    """Return minutes to the k-th mechanism: median (quartiles) [campaigns that got there]; the paper's below.

    A campaign that did not get there counts with more than its budget, `>`. Where all did, their number is left out.
    """
    groups = by_contender(results)
    subsystem = results[0]["subsystem"]
    most = max(len(result["planted"]) for result in results)
    rows = []
    for contender, group in groups.items():
        rows.append([contender, *(_minutes_cell(k, group) for k in range(1, most + 1))])
        if subsystem == "F" and all(one["phases"] == 1 for one in group) and (paper := paper_of(contender)):
            cells = [f"{mean} ({std})" for mean, std in paper[1]]
            rows.append([f"*paper: {paper[0]}*", *cells, *["-"] * (most - len(cells))])
    return _markdown([f"minutes on {subsystem} to", *(f"{k + 1}." for k in range(most))], rows)


def _minutes_cell(k: int, group: Sequence[Result]) -> str:
    reached = [sorted(one["found"].values())[k - 1] for one in group if len(one["found"]) >= k]
    if not reached:
        return "-"
    minutes = [*reached, *[math.inf] * (len(group) - len(reached))]
    low, middle, high = (f"{each:.0f}" if each < math.inf else ">" for each in _quartiles(minutes))
    spread = f" ({low} to {high})" if low != high else ""
    return f"{middle}{spread}" + (f" [{len(reached)}]" if len(reached) < len(group) else "")


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile by the nearest rank: each is one of the values."""
    ranked = sorted(values)
    low, middle, high = (ranked[math.ceil(share * len(ranked)) - 1] for share in (0.25, 0.5, 0.75))
    return low, middle, high


def _typical(values: Sequence[int]) -> str:
    """Return median, mean and range of counts."""
    return f"{statistics.median(values):g}, {statistics.mean(values):.2f} ({min(values)} to {max(values)})"


QUALITIES = ("precision", "recall", "joint_recall")


def summary_table(results: Sequence[Result]) -> str:
    """Return what each contender found, at which cost, and how good its explanations are, where measured."""
    anomalous = (anomaly for one in results for anomaly in one["anomalies"])
    qualities = [name.replace("_", " ") for name in QUALITIES] if any("precision" in each for each in anomalous) else []
    rows = []
    for contender, group in by_contender(results).items():
        found = [len(one["found"]) for one in group]
        anomalies = [anomaly for one in group for anomaly in one["anomalies"]]
        explained = [anomaly for anomaly in anomalies if anomaly["extraction_runs"]]
        runs = [anomaly["extraction_runs"] for anomaly in explained]
        per_mechanism = [_explained(one) / max(1, len(one["found"])) for one in group]
        rows.append(
            [
                contender,
                len(group),
                _typical(found),
                _typical([len(one["explained"]) for one in group]) if explained else "-",
                sum(one["false"] for one in group),
                _wrong_joins(group),
                f"{statistics.mean(minutes_to_all(one) for one in group):.0f}",
                f"{statistics.mean(per_mechanism):.1f}" if explained else "-",
                f"{statistics.median(runs):.0f}, {max(runs)}" if runs else "-",
                f"{statistics.mean(anomaly['complete'] for anomaly in explained):.0%}" if explained else "-",
                *((_mean(anomalies, name) for name in QUALITIES) if qualities else ()),
                f"{statistics.mean(one['runs'] for one in group):.0f}",
                f"{statistics.mean(one['search_runs'] for one in group):.0f}",
                f"{statistics.mean(one['wall_seconds'] for one in group):.1f}",
            ]
        )
    planted = len(results[0]["planted"])
    heads = (
        "seeds",
        f"found of {planted}: median, mean (range)",
        "explained", "false", "wrong joins", "minutes to all", "MFS per mechanism",
        "extraction runs: median, most", "complete", *qualities, "runs", "of them search", "wall s",
    )  # fmt: skip
    return _markdown([f"on {results[0]['subsystem']}", *heads], rows)


def speedup_table(results: Sequence[Result]) -> str:
    """Return how much faster more pairs are than the fewest: mean minutes to k mechanisms, and their ratio.

    A seed that did not get so far counts with the end of its budget, and is marked: its time is longer than that.
    """
    most = len(results[0]["planted"])
    counts = (most // 2, most - 3, most - 1, most)
    groups = {
        pairs: [one for one in results if one["pairs"] == pairs] for pairs in sorted({one["pairs"] for one in results})
    }
    times = {
        pairs: [statistics.mean(_minutes_to(k, one) for one in group) for k in counts]
        for pairs, group in groups.items()
    }
    fewest = min(groups)
    rows = []
    for pairs, group in groups.items():
        cells = []
        for k, minutes, base in zip(counts, times[pairs], times[fewest], strict=True):
            late = sum(len(one["found"]) < k for one in group)
            cells.append(f"{minutes:.0f} ({base / minutes:.1f} times as fast){f', {late} late' if late else ''}")
        rows.append([pairs, *cells])
    return _markdown(["pairs", *(f"minutes to {k} of {most}" for k in counts)], rows)


def _wrong_joins(group: Sequence[Result]) -> str:
    """Return how many of the anomalies that are reported as explained by another one have a different mechanism."""
    joined, wrong = sum(one["joined"] for one in group), sum(len(one["merged_wrong"]) for one in group)
    return f"{wrong} of {joined}" if joined else "-"


def _minutes_to(k: int, result: Result) -> float:
    """Return when the k-th mechanism was found; the end of the budget where it was not."""
    found = sorted(result["found"].values())
    return float(found[k - 1] if len(found) >= k else result["budget_minutes"])


def _explained(result: Result) -> int:
    return sum(anomaly["extraction_runs"] > 0 for anomaly in result["anomalies"])


def minutes_to_all(result: Result) -> float:
    """Return the minute at which the last mechanism was found; the whole budget when one was missed."""
    if len(result["found"]) < len(result["planted"]):
        return float(result["budget_minutes"])
    return float(max(result["found"].values(), default=0.0))


def paper_of(contender: str) -> tuple[str, Sequence[Pair]] | None:
    """Return the paper's figures for the contender that comes nearest."""
    return PAPER.get("optuna" if contender.startswith("optuna") else contender)


def by_contender(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return the campaigns of each contender, by its name in the tables."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result["contender"], []).append(result)
    return groups


def _mean(entries: Iterable[Result], name: str) -> str:
    values = [entry[name] for entry in entries if name in entry]
    return f"{statistics.mean(values):.3f}" if values else "-"


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def schedules_table(results: Sequence[Result]) -> str:
    """Return what annealing found with each schedule, on each clock."""
    clocks = sorted({one["phases"] for one in results})
    rows = []
    for group in by_contender(results).values():
        schedule = group[0]["schedule"]
        cells = []
        for phases in clocks:
            same = [one for one in group if one["phases"] == phases]
            cells += [len(same), _counts(same, "found"), _counts(same, "explained")]
        names = ("start", "end", "decay", "runs_per_temperature", "step")
        rows.append([*(schedule[name] for name in names), stage_runs(schedule), *cells])
    heads = ["start", "end", "decay", "runs per temperature", "step", "runs per stage"]
    for phases in clocks:
        heads += [f"seeds, {_phases(phases)}", "found: mean (standard error)", "explained"]
    return _markdown(heads, rows)


def stage_runs(schedule: Mapping[str, Any]) -> int:
    """Return how many runs a counter has in one stage."""
    temperatures = 0
    while schedule["start"] * schedule["decay"] ** temperatures >= schedule["end"]:
        temperatures += 1
    return temperatures * int(schedule["runs_per_temperature"])


def _counts(group: Sequence[Result], name: str) -> str:
    counts = [len(one[name]) for one in group]
    if len(counts) < 2:
        return str(counts[0]) if counts else "-"
    return f"{statistics.mean(counts):.2f} ({statistics.stdev(counts) / math.sqrt(len(counts)):.2f})"


def _phases(phases: int) -> str:
    return "one run per set-up" if phases == 1 else f"{phases} phases per set-up"


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


def page(by_part: Mapping[Part, Sequence[Result]]) -> str:
    """Return the page of evidence. A part without results says so."""
    sections = {part.name: (part, results) for part, results in by_part.items()}
    blocks = [PAGE_HEAD]
    part, results = sections["clocks"]
    blocks += ["## Subsystem F", _provenance(part, results), TERMS]
    for phases in part.phases:
        same = [one for one in results if one["phases"] == phases]
        if same:
            blocks += [f"### {_phases(phases).capitalize()}", minutes_table(same), summary_table(same)]
    if results:
        blocks.append("![Mechanisms found over time](../images/search-F.png)")
    part, results = sections["schedules"]
    blocks += ["## The schedule of the paper's algorithm", SCHEDULE_TEXT, _provenance(part, results)]
    blocks += [schedules_table(results)] if results else []
    part, results = sections["schedules-no-mfs"]
    blocks += ["Without explanations, a campaign has many more runs of the search:", _provenance(part, results)]
    blocks += [schedules_table(results)] if results else []
    part, results = sections["guided"]
    if len(by_contender(results)) < len(part.contenders):
        results = []  # the comparison of the clocks has some of its campaigns
    blocks += ["## The parts of `guided`", GUIDED_TEXT, _provenance(part, results)]
    blocks += [minutes_table(results), summary_table(results)] if results else []
    return "\n\n".join((*blocks, OTHERS)) + "\n"


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
112. Its temperatures are those of `nsdi22`, which were chosen on seeds 1 to 12 of an earlier simulator."""

TERMS = """Column k of the first table of a clock has the minutes to the k-th mechanism: the median of all seeds, in
parentheses the quartiles. A seed that did not get there counts with more than ten hours (`>`), and [n] is the number
of seeds that did. Rows in italics have the paper's figures, *mean (standard deviation)*, on its own
subsystem F.

* **False** counts the confirmed anomalies that no mechanism causes, over all seeds.
* **Search** counts the runs that the strategy proposed. All other runs are plain siblings, confirmations, and
  explanations.

All contenders share the judge and the confirmation. Those that explain anomalies use Collie's extraction, which also
measures the claim of each set. `random` and the variants `-no-mfs` explain nothing, so their whole budget finds. With
phases, `random` draws further workloads that fit the set-up, and annealing takes further neighbours of its first one.
The released prototype of the paper is no contender: its points have two independent kinds of traffic, and a workload
here has one."""

SCHEDULE_TEXT = """The paper gives no temperatures, and leaves open what one search dimension is: one of its four (step
`group`) or one of the space (step `one`). A *stage* drives one counter from the first temperature to the last. The
paper's ten hours allow about 100 runs per counter. These are campaigns of `nsdi22-diag` with other schedules, on seeds
that no other section uses."""

GUIDED_TEXT = """`explain_after_sightings=0` explains each anomaly at once. `guide.random_share=1.0` learns nothing. It
draws transports at random, and values from the ends of their ranges."""

OTHERS = """## Other subsystems and noise

[Findings](findings.md) has campaigns of `guided` on other subsystems, and with noise, outliers and drift. The options
`--subsystem`, `--noise` and `--space` of the benchmark compare contenders there. The space `benchmarks/wide-space.yaml`
adds nine dimensions that do not affect the subsystem."""


def plot(results: Sequence[Result], path: Path) -> None:
    """Draw mechanisms found over time, each clock by itself: mean, a band of one standard deviation.

    On F with one phase per set-up, the paper's means are dotted.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    clocks = sorted({one["phases"] for one in results})
    contenders = list(by_contender(results))
    figure, panels = plt.subplots(1, len(clocks), figsize=(9 * len(clocks), 5.5), layout="constrained", squeeze=False)
    for phases, axes in zip(clocks, panels[0], strict=True):
        _draw(axes, [one for one in results if one["phases"] == phases], contenders)
    figure.savefig(path, dpi=150 if len(clocks) == 1 else 100)
    plt.close(figure)


def _draw(axes: Any, results: Sequence[Result], contenders: Sequence[str]) -> None:
    import numpy as np

    first = results[0]
    planted, is_papers = len(first["planted"]), first["subsystem"] == "F" and first["phases"] == 1
    end = max(result["budget_minutes"] for result in results)
    grid = np.linspace(0, end, 400)
    for contender, group in by_contender(results).items():
        colour = f"C{contenders.index(contender)}"
        counts = np.array([[sum(m <= t for m in one["found"].values()) for t in grid] for one in group])
        mean, spread = counts.mean(axis=0), counts.std(axis=0)
        axes.plot(grid / 60, mean, color=colour, label=f"{contender} ({len(group)} seeds)")
        axes.fill_between(grid / 60, mean - spread, np.minimum(planted, mean + spread), color=colour, alpha=0.12, lw=0)
        if is_papers and (paper := paper_of(contender)):
            minutes = [0, *(mean for mean, _ in paper[1])]
            axes.plot(np.array(minutes) / 60, range(len(minutes)), color=colour, ls=":", marker=".", ms=4, lw=1)
    axes.axhline(planted, color="0.6", lw=0.8)
    axes.set(xlabel="testbed time (hours)", ylabel=f"mechanisms found, of {planted}", ylim=(0, planted + 0.5))
    axes.set_xlim(0, end / 60)
    dotted = "; dotted: the paper" if is_papers else ""
    axes.set_title(f"{first['subsystem']}, {_phases(first['phases'])}: mean and standard deviation over seeds{dotted}")
    axes.legend(loc="lower right", frameon=False)
