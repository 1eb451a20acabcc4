"""The figures of the worked examples in docstrings."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np
from click.testing import CliRunner

from collie.cli.main import cli
from collie.content.catalogs import load_catalog
from collie.content.spaces import load_space
from collie.detect.bounds import Bound, Bounds, Calibration, at_own_mtu
from collie.detect.noise import Noise
from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.fleet.battery import BATTERY, rounds
from collie.fleet.judge import judge
from collie.fleet.reading import DELIVERED, HostReading
from collie.search.extract import extract
from collie.search.fresh_runs import Surroundings
from collie.search.hypotheses import Hypotheses
from collie.search.limits import CandidateLimits
from collie.search.recipe import Extraction
from collie.workloads.workload import Workload

SPACE = load_space("nsdi22")
REPRODUCED = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.2, "b", margin=100.0)
HEALTHY = Verdict(Outcome.NORMAL, "fine")


def is_anomalous(workload: Workload) -> bool:
    return workload.wqe_batch >= 16 and workload.mtu <= 1024


def test_extraction() -> None:
    rng = Random(3)
    finding = next(workload for workload in iter(lambda: SPACE.sample(rng), None) if is_anomalous(workload))
    assert (finding.wqe_batch, finding.mtu, len(CandidateLimits(SPACE, finding).limits)) == (32, 1024, 50)
    assert sum(finding.get(name) != dimension.plain for name, dimension in SPACE.dimensions.items()) == 14
    probes = extract(finding, Symptom.PAUSE, Extraction(), Surroundings(SPACE, Noise(), lambda _workload: False))
    healthy = []
    try:
        probe = next(probes)
        for number in range(1, 100):
            healthy += [] if is_anomalous(probe) else [number]
            probe = probes.send(REPRODUCED if is_anomalous(probe) else HEALTHY)
    except StopIteration as stop:
        found = stop.value
    assert str(found.mfs) == "mtu <= 1024 and wqe_batch >= 16"
    assert (found.runs, healthy) == (29, [2, 6, 8, 10, 12, 13])
    assert (found.fresh_shows, found.fresh_runs) == (9, 9)


def test_hypotheses() -> None:
    finding = SPACE.base.with_(wqe_batch=64, mtu=1024)
    limits = CandidateLimits(SPACE, finding)
    variants = [finding.with_(**change) for change in ({"wqe_batch": 1}, {"mtu": 4096}, {"wqe_batch": 16})]
    columns = np.array([limits.coordinates(each) for each in (*variants, finding.with_(wqe_batch=32))])
    hypotheses = Hypotheses(limits.limits, 0.99, 0.01, 1, limits.coordinates(finding)[None], np.array([1.0]))
    table = [hypotheses.inside(columns).mean(axis=0).round(2).tolist()]
    for variant, weight in zip(variants, (-1.0, 1.0, -1.0), strict=True):
        hypotheses.learn(limits.coordinates(variant), weight)
        table.append(hypotheses.inside(columns).mean(axis=0).round(2).tolist())
    assert len(limits.limits) == 47
    assert table == [[0.72, 0.72, 0.9, 0.96], [0.03, 0.75, 0.64, 0.84], [0.01, 1.0, 0.73, 0.84], [0.0, 1.0, 0.02, 0.52]]
    assert [str(each) for each in limits.conditions(hypotheses.best(), columns)] == ["wqe_batch >= 32"]


def test_bounds() -> None:
    workload = SPACE.base.with_(qps=320, send_wq_depth=16, mtu=1024, wqe_batch=8, messages=(4096,))
    bounds = Bounds(lambda _workload: Bound(200e9, 200e6, "specification"), Calibration(), SPACE)
    sibling = bounds.sibling(workload)
    assert (sibling.qps, sibling.send_wq_depth, sibling.mtu, sibling.wqe_batch) == (16, 320, 4096, 1)
    assert workload.bytes_outstanding == sibling.bytes_outstanding == 20 << 20
    bounds.learn(sibling, {"b": at_own_mtu(sibling, 160e9, "plain sibling")})
    assert (bounds.tightest(workload).bps, round(bounds.tightest(workload).pps / 1e6, 1)) == (160e9, 19.5)


def test_fleet() -> None:
    hosts = [f"h{number}" for number in range(1, 9)]
    rng, readings = Random(1), []
    for number, group in enumerate(group for groups in rounds(hosts, BATTERY[:2]) for group in groups):
        for place, probe in enumerate(group.probes):
            level = 80e9 if "h3" in group.hosts and probe.name == "stream" else 100e9
            for host in group.hosts:
                samples = tuple(level * rng.uniform(0.995, 1.005) for _ in range(10))
                partners = tuple(other for other in group.hosts if other != host)
                readings.append(HostReading(host, 2 * number + place, partners, probe.name, {DELIVERED: samples}, 10.0))
    verdict = judge(readings, hosts, BATTERY[:2], load_catalog("simulated"))
    odd, *others = verdict.standings
    assert (odd.host, odd.is_odd, round(odd.decisive.score, 1), verdict.metrics) == ("h3", True, -1.5, 2)
    assert (round(odd.decisive.low / 1e9), round(odd.decisive.high / 1e9)) == (87, 116)
    assert max(other.score for other in others) < 0.05


def test_search_loop(tmp_path: Path) -> None:
    words = ["search", "--subsystem", "F", "--seed", "5", "--budget", "120runs", "--campaign", str(tmp_path / "one")]
    done = CliRunner().invoke(cli, [*words, "--format", "json"])
    anomalies = {found["id"]: found for found in json.loads(done.stdout)["anomalies"]}
    assert {name: found["extraction_runs"] for name, found in anomalies.items()} == {"a1": 47, "a2": 0}
    assert [name for name, found in anomalies.items() if found["complete"]] == ["a1"]
    assert [anomalies[name]["found_at_run"] for name in ("a1", "a2")] == [21, 32]
    lines = map(json.loads, (tmp_path / "one" / "results.jsonl").read_text().splitlines())
    runs = [(line["purpose"], line["set_up"]) for line in lines if "purpose" in line]
    assert [of for _, of in runs[:6]] == [1] * 6
    assert [purpose for purpose, _ in runs[:15]] == [
        *["search"] * 6,
        *["sibling"] * 3,
        *["search"] * 4,
        *["sibling"] * 2,
    ]
    assert runs[15:27] == [("search", 16)] * 8 + [("sibling", 24)] * 4
    assert [purpose for purpose, _ in runs[27:30]] == ["confirm"] * 3
    assert runs[30:42] == [("search", 31)] + [("search", 32)] * 8 + [("sibling", 40)] * 3
    assert [purpose for purpose, _ in runs[42:47]] == ["repeat", "sibling", *["confirm"] * 3]
    assert {purpose for purpose, _ in runs[47:73]} == {"extract"}
    assert {purpose for purpose, _ in runs[73:94]} == {"claim", "extract"}
    assert [run for run, (purpose, _) in enumerate(runs, 1) if purpose == "claim"] == [74, 79, 83, 87, 91]
    assert {purpose for purpose, _ in runs[94:]} == {"extract"}
