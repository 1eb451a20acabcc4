"""Tables and the figure of campaigns of `benchmarks/search_efficiency.py`.

A result is the plain object of one campaign. The *clock* says what further workloads cost: with one phase each has a
set-up of its own, as in the paper. With more, those that fit a set-up cost 8 s.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.results import Result

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
        "extraction runs: median, most", "complete", *qualities, "runs", "runs of the search", "wall s",
    )  # fmt: skip
    return _markdown([f"on {results[0]['subsystem']}", *heads], rows)


def prototype_table(results: Sequence[Result]) -> str:
    """Return what the paper's released prototype found, and how many of its anomalous points have no mechanism."""
    rows = []
    for contender, group in by_contender(results).items():
        founded = [one["anomalous"] - one["unfounded"] for one in group]
        rows.append(
            [
                contender,
                len(group),
                _typical([len(one["found"]) for one in group]),
                f"{statistics.mean(one['points'] for one in group):.0f}",
                f"{statistics.mean(founded):.0f}",
                f"{statistics.mean(one['unfounded'] for one in group):.0f}",
            ]
        )
    planted = len(results[0]["planted"])
    heads = (
        "seeds",
        f"found of {planted}: median, mean (range)",
        "points",
        "anomalous by a mechanism",
        "anomalous without one",
    )
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


def clocks_table(results: Sequence[Result]) -> str:
    """Return what each contender found and explained on each clock."""
    clocks = _clocks(results)
    rows = [[contender, *_on_clocks(group, clocks)] for contender, group in by_contender(results).items()]
    return _markdown(["contender", *_heads_of(clocks)], rows)


def schedules_table(results: Sequence[Result]) -> str:
    """Return what annealing found and explained with each schedule on each clock."""
    clocks, names = _clocks(results), ("start", "end", "decay", "runs_per_temperature", "step")
    rows = []
    for group in by_contender(results).values():
        schedule = group[0]["schedule"]
        rows.append([*(schedule[name] for name in names), stage_runs(schedule), *_on_clocks(group, clocks)])
    heads = ["start", "end", "decay", "runs per temperature", "step", "runs per stage"]
    return _markdown([*heads, *_heads_of(clocks)], rows)


def best_schedule(results: Sequence[Result]) -> str:
    """Return how far the best mean is from that of the recipe's schedule, which is the first one."""
    first, *others = ([len(one["found"]) for one in group] for group in by_contender(results).values())
    best = max(others, key=statistics.mean, default=first)
    if min(len(first), len(best)) < 2:
        return "One campaign of each does not tell schedules apart."
    above = statistics.mean(best) - statistics.mean(first)
    error = math.hypot(*(statistics.stdev(counts) / math.sqrt(len(counts)) for counts in (first, best)))
    if above <= 0:
        return "None finds more than that of the recipe, the first."
    return f"The best mean is {above:.2f} above that of the recipe, the first. Its standard error is {error:.2f}."


def _clocks(results: Sequence[Result]) -> list[int]:
    return sorted({one["phases"] for one in results})


def _on_clocks(group: Sequence[Result], clocks: Sequence[int]) -> list[object]:
    cells: list[object] = []
    for phases in clocks:
        same = [one for one in group if one["phases"] == phases]
        cells += [len(same), _counts(same, "found"), _counts([one for one in same if one["explains"]], "explained")]
        cells.append(f"{statistics.mean(one['search_runs'] for one in same):.0f}" if same else "-")
    return cells


def _heads_of(clocks: Sequence[int]) -> list[str]:
    return [
        head
        for phases in clocks
        for head in (
            f"seeds, {clock_name(phases)}",
            "found: mean (standard error)",
            "explained",
            "runs of the search",
        )
    ]


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


def clock_name(phases: int) -> str:
    """Return the name of a clock."""
    return "one run per set-up" if phases == 1 else f"{phases} phases per set-up"


def plot(results: Sequence[Result], path: Path) -> None:
    """Draw mechanisms found over time, each clock by itself: mean, a band of one standard deviation.

    On F with one phase per set-up, the paper's means are dotted.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    clocks = _clocks(results)
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
    axes.set_title(
        f"{first['subsystem']}, {clock_name(first['phases'])}: mean and standard deviation over seeds{dotted}"
    )
    axes.legend(loc="lower right", frameon=False)
