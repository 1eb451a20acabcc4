"""What campaigns of `scripts/acceptance/findings.py` show, beside what is asked of them.

A result is the plain object of one campaign. A *set* is an anomaly that is reported on its own. It has a precision, the
share of runs inside that show it, and a claim (k of n runs, with an interval) if it is explained to the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from collie.detect.interval import wilson
from collie.search.anomaly import Anomaly
from collie.workloads.feature import Mfs
from tests.support.results import Result

Set = Mapping[str, Any]

CONFIDENCE = 0.95
WRONG_JOINS, UNEXPLAINED = 0.02, 0.3
BOTH_CAUSES = 16 / 20
FALSE_PER_CAMPAIGN = 1 / 20
FOUND_FLAKY, UNNEEDED, SHOW_RATES = 10, 0.3, 0.9
FALSE_CHANCE, EXPLAINED_DISTURBED = 0.01, 11
FRESH_RUNS, WIDEST, CLAIMS = 9, 0.5, 0.93
PRECISION, PRECISE_SETS, MEDIAN_PRECISION, MEDIAN_RECALL = 0.9, 0.95, 0.95, 0.8


@dataclass(frozen=True)
class Check:
    """One line of the acceptance table."""

    row: int
    case: str
    what: str
    asked: str
    got: str
    holds: bool


def checks(results: Iterable[Result]) -> Iterator[Check]:
    """Yield the checks of every row that has results. Row 6 is about all of them."""
    results = list(results)
    for (row, case), group in by_case(results).items():
        yield from _ROWS[row](case, group)
    if results:
        yield from _claims(results)


def _plain(case: str, group: Sequence[Result]) -> Iterator[Check]:
    joined, wrong = sum(one["joined"] for one in group), sum(len(one["merged_wrong"]) for one in group)
    unrelated = sum(len(one["merged_unrelated"]) for one in group)
    got = f"{_share(wrong, joined)}, {unrelated} of them to a cause that has no part in it"
    yield Check(1, case, "wrong joins", "at most 2 %", got, wrong <= WRONG_JOINS * joined)
    hidden = sum(len(one["hidden"]) for one in group)
    yield Check(1, case, "mechanisms hidden by a join", "0", str(hidden), hidden == 0)
    found, explained = _mean_of(group, "found"), _mean_of(group, "explained")
    got = f"{found:.2f} - {explained:.2f}"
    yield Check(1, case, "found - explained", "at most 0.3", got, found - explained <= UNEXPLAINED)


def _nested(case: str, group: Sequence[Result]) -> Iterator[Check]:
    both = sum(set(one["explained"]) == set(one["planted"]) for one in group)
    asked = f"at least {math.ceil(BOTH_CAUSES * len(group))}"
    yield Check(2, case, "both explained", asked, _share(both, len(group)), both >= BOTH_CAUSES * len(group))


def _sick(case: str, group: Sequence[Result]) -> Iterator[Check]:
    named = [one["first"] for one in group if one["first"] and one["first"]["first_planted"]]
    first = sum(each["holds_witness"] for each in named)
    once = sum(each["times"] == 1 for each in named)
    got = f"{_share(first, len(group))}, once {once}"
    yield Check(3, case, "plain anomaly named first", f"{len(group)}", got, first == len(group))
    false, most = sum(one["false"] for one in group), FALSE_PER_CAMPAIGN * len(group)
    yield Check(3, case, "false anomalies", "at most 1 in 20 campaigns", _share(false, len(group)), false <= most)


def _flaky(case: str, group: Sequence[Result]) -> Iterator[Check]:
    false = sum(one["false"] for one in group)
    if "all=0.3" in case:
        yield Check(4, case, "false anomalies", "0", str(false), false == 0)
        return
    found, sets = _mean_of(group, "found"), sets_of(group)
    yield Check(4, case, "found, mean", "at least 10 of 13", f"{found:.2f}", found >= FOUND_FLAKY)
    unneeded = mean([each["unneeded"] for each in sets] or [0.0])
    yield Check(4, case, "needless conditions per set", "at most 0.3", f"{unneeded:.2f}", unneeded <= UNNEEDED)
    held, of = sum(map(holds, sets)), len(sets)
    yield Check(4, case, "show rate within its interval", "90 %", _share(held, of), held >= SHOW_RATES * of)


def _disturbed(case: str, group: Sequence[Result]) -> Iterator[Check]:
    if not case.startswith("F-healthy"):
        explained = _mean_of(group, "explained")
        yield Check(5, case, "explained, mean", "at least 11", f"{explained:.2f}", explained >= EXPLAINED_DISTURBED)
        return
    printed = [one["false_chance"] for one in group if one["false_chance"] is not None]
    chance = mean(printed or [1.0])
    yield Check(5, case, "printed chance, mean", "at most 1 %", f"{chance:.2%}", chance <= FALSE_CHANCE)
    wrong, most = sum(one["false"] > 0 for one in group), binomial_limit(len(group), chance)
    yield Check(5, case, "with a false anomaly", f"at most {most}", _share(wrong, len(group)), wrong <= most)


def _claims(results: Iterable[Result]) -> Iterator[Check]:
    sets = sets_of(results)
    claims = [each for each in sets if each["n"] >= FRESH_RUNS]
    kind = "fresh runs" if all(each["fresh"] for each in claims) else "runs inside, not all fresh"
    held = sum(holds(each) and each["interval"][1] - each["interval"][0] <= WIDEST for each in claims)
    asked = "93 %, at most 0.5 wide"
    yield Check(6, "all", f"claims of {kind} that hold", asked, _share(held, len(claims)), held >= CLAIMS * len(claims))
    every, held = [each for each in sets if each["interval"]], sum(map(holds, sets))
    got = _share(held, len(every))
    yield Check(6, "all", "claims of any number of runs that hold", "93 %", got, held >= CLAIMS * len(every))
    precise, recalls = sum(each["precision"] >= PRECISION for each in sets), _values(sets, "recall")
    got = _share(precise, len(sets))
    yield Check(6, "all", "sets of precision 0.9", "95 %", got, precise >= PRECISE_SETS * len(sets))
    for what, values, least in (
        ("precision, median", _values(sets, "precision"), MEDIAN_PRECISION),
        ("recall, median", recalls, MEDIAN_RECALL),
    ):
        middle = median(values) if values else math.nan
        yield Check(6, "all", what, f"at least {least}", f"{middle:.3f}", middle >= least)


_ROWS: Mapping[int, Callable[[str, Sequence[Result]], Iterator[Check]]] = {
    1: _plain,
    2: _nested,
    3: _sick,
    4: _flaky,
    5: _disturbed,
}


def sets_of(results: Iterable[Result]) -> list[Set]:
    """Return the sets that are explained to the end."""
    return [each for one in results for each in one["sets"] if each["complete"]]


def holds(claim: Set) -> bool:
    """Whether the interval of a claim holds the true share of runs that show the anomaly."""
    interval = claim["interval"]
    return interval is not None and interval[0] <= claim["shows"] <= interval[1]


def binomial_limit(trials: int, chance: float, confidence: float = CONFIDENCE) -> int:
    """Return the number of successes that is not exceeded with this confidence."""
    below = 0.0
    for successes in range(trials + 1):
        below += math.comb(trials, successes) * chance**successes * (1.0 - chance) ** (trials - successes)
        if below >= confidence:
            return successes
    return trials


def line_of(result: Result) -> str:
    """Return one campaign in words."""
    return (
        f"found {len(result['found'])} of {len(result['planted'])}, explained {len(result['explained'])}, "
        f"wrong joins {len(result['merged_wrong'])} of {result['joined']}, hidden {len(result['hidden'])}, "
        f"false {result['false']}, {result['runs']} runs, {result['wall_seconds']:.0f} s "
        f"and {result['scoring_seconds']:.0f} s of scoring"
    )


def lacking_one(mfs: Mfs) -> Iterator[Mfs]:
    """Yield the set without each of its conditions in turn."""
    for left_out in mfs.conditions:
        yield Mfs(tuple(condition for condition in mfs.conditions if condition is not left_out))


def claim_of(anomaly: Anomaly) -> dict[str, Any]:
    """Return k of n runs and the stated interval: of fresh runs where the engine counts them, else of all inside."""
    fresh = hasattr(anomaly, "fresh_runs")
    names = ("fresh_runs", "fresh_shows") if fresh else ("trials", "passed")
    runs, shows = (getattr(anomaly, name) or 0 for name in names)
    interval = wilson(shows, runs)
    return {"fresh": fresh, "k": shows, "n": runs, "interval": [interval.low, interval.high] if interval else None}


PAGE_HEAD = """# Evidence: findings

Are findings true to their causes, also on hardware that is less kind than F? {campaigns} campaigns of `guided` on
simulated subsystems with known causes, {commits}:

<!-- needs: time -->
```sh
python scripts/acceptance/findings.py 1 2 3 4 5
python scripts/acceptance/findings.py --table --write
```

A *set* is the explanation of an anomaly that is reported on its own. Its precision is the share of 2,000 ladder-uniform
points inside that are anomalous. A condition is needless if the precision without it is at most 0.05 lower. A claim
holds if its interval holds the share of runs inside that show the anomaly. The subsystems of rows 2 and 3 are in
`tests/data/subsystems`. 20 campaigns per case are asked for, and 100 on F-healthy.

"""


def page(results: Sequence[Result]) -> str:
    """Return the page of evidence."""
    rows: dict[str, set[int]] = {}
    for result in results:
        rows.setdefault(result["commit"], set()).add(result["row"])
    commits = " and ".join(
        f"{'row' if len(of) == 1 else 'rows'} {', '.join(map(str, sorted(of)))} at commit {commit}"
        for commit, of in sorted(rows.items(), key=lambda item: min(item[1]))
    )
    return PAGE_HEAD.format(commits=commits, campaigns=len(results)) + tables(results)


def of_commits(results: Iterable[Result], commits: Sequence[str]) -> list[Result]:
    """Return the results of each row at the first of these commits that has any."""
    results = list(results)
    rows: dict[int, str] = {}
    for commit in reversed(commits):
        rows |= {result["row"]: commit for result in results if result["commit"] == commit}
    return [result for result in results if rows.get(result["row"]) == result["commit"]]


def tables(results: Sequence[Result]) -> str:
    """Return both tables."""
    return f"{acceptance_table(results)}\n\n{campaigns_table(results)}\n"


def acceptance_table(results: Sequence[Result]) -> str:
    """Return what is asked and what was got."""
    campaigns = {key: len(group) for key, group in by_case(results).items()}
    lines = [
        (
            each.row,
            each.case,
            campaigns.get((each.row, each.case), len(results)),
            each.what,
            each.asked,
            each.got,
            _yes(each.holds),
        )
        for each in checks(results)
    ]
    return _markdown(("row", "case", "campaigns", "what", "asked", "got", "holds"), lines)


def campaigns_table(results: Sequence[Result]) -> str:
    """Return what the campaigns of each case found."""
    lines = []
    for (row, case), group in by_case(results).items():
        sets = sets_of(group)
        lines.append(
            (
                row,
                case,
                len(group),
                len(group[0]["planted"]),
                f"{_mean_of(group, 'found'):.2f}",
                f"{_mean_of(group, 'explained'):.2f}",
                _share(sum(len(one["merged_wrong"]) for one in group), sum(one["joined"] for one in group)),
                sum(one["false"] for one in group),
                f"{len(sets) / len(group):.1f}",
                _median(sets, "precision"),
                _median(sets, "recall"),
                f"{mean([each['unneeded'] for each in sets] or [0.0]):.2f}",
                _share(sum(map(holds, sets)), len(sets)),
                f"{mean(one['runs'] for one in group):.0f}",
                f"{mean(one['wall_seconds'] for one in group):.0f}",
            )
        )
    heads = (
        "row", "case", "campaigns", "planted", "found", "explained", "wrong joins", "false", "sets explained",
        "precision, median", "recall, median", "needless conditions per set", "claims that hold", "runs", "wall s",
    )  # fmt: skip
    return _markdown(heads, lines)


def by_case(results: Iterable[Result]) -> dict[tuple[int, str], list[Result]]:
    """Return the results of each row and case."""
    groups: dict[tuple[int, str], list[Result]] = {}
    for result in sorted(results, key=lambda result: result["row"]):
        groups.setdefault((result["row"], result["case"]), []).append(result)
    return groups


def _mean_of(group: Sequence[Result], name: str) -> float:
    return mean(len(one[name]) for one in group)


def _values(sets: Iterable[Set], name: str) -> list[float]:
    return [each[name] for each in sets if name in each]


def _median(sets: Iterable[Set], name: str) -> str:
    values = _values(sets, name)
    return f"{median(values):.3f}" if values else "-"


def _share(count: int, of: int) -> str:
    return f"{count} of {of} ({count / of:.1%})" if of else f"{count} of 0"


def _yes(holds: bool) -> str:
    return "yes" if holds else "**no**"


def _markdown(heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)
