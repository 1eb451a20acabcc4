"""Acceptance of the gate on the simulator: replays, searches and answers, seed by seed, as Markdown.

    python scripts/acceptance/gate.py [--seeds N] [--first SEED] [--processes N] [--results FILE]

Every scenario has a baseline campaign of six hours and a gate of six hours, both of virtual time, on subsystem F. The
answers are kept in FILE, one JSON object a line, and what is there already is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collie import wiring
from collie.app import baselines, campaigns, gates, inputs, testbeds
from collie.campaign.choice import GateChoice, SearchChoice, TestbedChoice
from collie.campaign.events import Silence
from collie.campaign.gate.cases import CaseOrigin
from collie.detect.compare import Change
from collie.detect.reading import RunReading, Sign, reading_of, resolution, sign_of
from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.detect.thresholds import Thresholds
from collie.ports import Measured
from collie.simulator.truth import Truth
from collie.wiring import ADAPTERS
from collie.workloads.workload import Workload

BUDGET = "6h"
CURES = {
    "nsdi22-03": {"minimum_mtu": "4096"},
    "nsdi22-09": {"relaxed_ordering": "forced"},
    "nsdi22-10": {"firmware": "22.31"},
    "nsdi22-11": {"nic_placement": "per_socket"},
}
"""Which setting removes which known anomaly by itself. #12 needs #9's as well, and there is no other cure on F."""

Settings = Mapping[str, str]


@dataclass(frozen=True)
class Scenario:
    """One row of the table.

    Attributes:
        name: of the row.
        baseline, candidate: settings that differ from F's.
        expected: known anomalies, and what has to be said of each.
        alarms: whether the gate has to fail.
    """

    name: str
    baseline: Settings
    candidate: Settings
    expected: Mapping[str, Change]
    alarms: bool = False

    def is_right(self, answer: Mapping[str, Any]) -> bool:
        """Whether a gate said what it had to say, and nothing that is not true."""
        said = all(answer["changes"].get(name) == change for name, change in self.expected.items())
        code = 1 if self.alarms or answer["alarms"] else 0
        return said and not false_alarms(answer) and answer["exit_code"] == code


def false_alarms(answer: Mapping[str, Any]) -> int:
    """Count the alarms of a gate that are not so: without noise, the workload is no worse than on the baseline."""
    return sum(not true for true in answer["alarms"].values())


def _cured(*names: str) -> Scenario:
    settings = {key: value for name in names for key, value in CURES[name].items()}
    text = " and ".join(f"#{int(name[-2:])}" for name in names)
    return Scenario(f"{text} cured", {}, settings, dict.fromkeys(names, Change.FIXED))


def _lost(name: str) -> Scenario:
    text = f"baseline with the cure of #{int(name[-2:])}, candidate without"
    return Scenario(text, CURES[name], {}, {name: Change.NEW}, alarms=True)


SCENARIOS = (
    Scenario("F unchanged", {}, {}, {}),
    *(_cured(name) for name in CURES),
    _cured("nsdi22-09", "nsdi22-10"),
    *(_lost(name) for name in ("nsdi22-09", "nsdi22-03", "nsdi22-10")),
)


def _campaign(settings: Settings, seed: int, directory: Path) -> baselines.Baseline:
    choice = SearchChoice(TestbedChoice(settings=settings), budget=BUDGET, seed=seed)
    opened = campaigns.begin(ADAPTERS, choice, directory)
    try:
        opened.run(Silence())
    finally:
        opened.close()
    return baselines.read_baseline(ADAPTERS, str(directory))


def _gate(scenario: Scenario, baseline: baselines.Baseline, seed: int) -> dict[str, Any]:
    testbed = dataclasses.replace(baseline.choice.testbed, settings=dict(scenario.candidate))
    search = dataclasses.replace(baseline.choice, testbed=testbed, seed=seed + 100_000)
    choice = GateChoice(search, str(baseline.path), under_test=("settings",))
    with gates.gate(ADAPTERS, choice, baseline, None, Silence()) as opened:
        summary = opened.run()
    alarmed = {result.case.name: result.case.workload for result in summary.alarms}
    return {
        "scenario": scenario.name,
        "seed": seed,
        "exit_code": summary.exit_code(inconclusive_fails=True),
        "changes": {result.case.name: result.change for result in summary.results},
        "alarms": {name: _is_true(scenario, workload) for name, workload in alarmed.items()},
        "found": sum(result.case.kind is CaseOrigin.FOUND for result in summary.results),
        "inconclusive": len(summary.of(Change.INCONCLUSIVE)),
        "runs": sum(summary.runs),
        "elapsed_seconds": summary.elapsed_seconds,
        "replay_seconds": sum(r.elapsed_seconds for r in summary.results if r.case.kind is not CaseOrigin.FOUND),
    }


def _is_true(scenario: Scenario, workload: Workload) -> bool:
    """Whether the candidate is worse on a workload where no noise has a say."""
    before, after = (_noiseless(settings, workload) for settings in (scenario.baseline, scenario.candidate))
    return sign_of(before, after, resolution(Thresholds())) is Sign.WORSE


def _noiseless(settings: Settings, workload: Workload) -> RunReading:
    """Return what F shows without noise; anomalous when its ground truth says so."""
    choice = TestbedChoice(settings=settings, noise=0.0)
    space = inputs.space_of(ADAPTERS, choice, None)
    severity = float(Truth(wiring.subsystem_of(choice), space).severities([workload])[0])
    outcome = Outcome.ANOMALOUS if severity else Outcome.NORMAL
    displayed = testbeds.open_testbed(ADAPTERS, choice, 0).measure(workload, 1)
    assert isinstance(displayed, Measured)
    symptom = Symptom.LOW_THROUGHPUT if severity else None
    return reading_of(Verdict(outcome, "", symptom, severity), displayed.measurement)


def _seed(seed: int, wanted: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the answers of one seed; scenarios with the same baseline share its campaign."""
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        campaigns: dict[str, baselines.Baseline] = {}
        for scenario in (each for each in SCENARIOS if each.name in wanted):
            key = json.dumps(scenario.baseline)
            if key not in campaigns:
                campaigns[key] = _campaign(scenario.baseline, seed, Path(folder) / f"baseline-{len(campaigns)}")
            answers.append(_gate(scenario, campaigns[key], seed))
    return answers


def _missing(seeds: range, kept: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, tuple[str, ...]]]:
    there = {(answer["scenario"], answer["seed"]) for answer in kept}
    for seed in seeds:
        if wanted := tuple(each.name for each in SCENARIOS if (each.name, seed) not in there):
            yield seed, wanted


def table(answers: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of docs/evidence/gate.md."""
    by = {(answer["scenario"], answer["seed"]): answer for answer in answers}
    heads = ("scenario", "gates", "right", "gates with a false alarm", "with a true one", "runs", "time for the search")
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    false = 0
    for scenario in SCENARIOS:
        mine = [answer for (name, _), answer in sorted(by.items()) if name == scenario.name]
        if not mine:
            continue
        wrong = sum(false_alarms(answer) > 0 for answer in mine)
        true = sum(len(answer["alarms"]) > false_alarms(answer) for answer in mine)
        false += 0 if scenario.alarms else wrong
        runs = sum(answer["runs"] for answer in mine) / len(mine)
        searched = sum(1 - answer["replay_seconds"] / answer["elapsed_seconds"] for answer in mine) / len(mine)
        right = sum(map(scenario.is_right, mine))
        lines.append(f"| {scenario.name} | {len(mine)} | {right} | {wrong} | {true} | {runs:.0f} | {searched:.0%} |")
    return "\n".join([*lines, "", f"Gates with a false alarm over the unchanged and cured candidates: {false}."])


def _kept(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main(argv: list[str]) -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--results", type=Path, default=Path("gate-results.jsonl"))
    options = parser.parse_args(argv)
    seeds = range(options.first, options.first + options.seeds)
    todo = list(_missing(seeds, _kept(options.results)))
    with ProcessPoolExecutor(options.processes) as pool, options.results.open("a") as file:
        for answers in pool.map(_seed, *zip(*todo, strict=True)) if todo else ():
            file.writelines(json.dumps(answer) + "\n" for answer in answers)
            file.flush()
    print(table(answer for answer in _kept(options.results) if answer["seed"] in seeds))


if __name__ == "__main__":
    main(sys.argv[1:])
