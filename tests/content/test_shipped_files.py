"""Every file that ships loads, and says what the paper says."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest

from collie.content.anomalies import load_reference, load_references
from collie.content.applications import load_application
from collie.content.catalogs import load_catalog
from collie.content.document import read_document
from collie.content.locate import ContentKind, available
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.counters.catalog import CounterKind, Role
from collie.detect.plain import plain_sibling
from collie.detect.symptom import Symptom
from collie.errors import ContentError
from collie.search.recipe import Recipe, StrategyName
from collie.workloads.application import reached
from collie.workloads.dimension import Ordered, Vector
from collie.workloads.reference import FixStatus, ReferenceAnomaly
from collie.workloads.setup import Changes, changes_with
from collie.workloads.workload import BESIDE_TRAFFIC, FIELD_NAMES, Memory, Opcode, QpType

SPACES = available(ContentKind.SPACE)
REFERENCES = load_references("nsdi22")


def number(reference: ReferenceAnomaly) -> int:
    return int(reference.id.rpartition("-")[2])


# --- applications ---------------------------------------------------------------------------------------------------


def test_the_applications_that_the_manual_names_are_there() -> None:
    assert set(available(ContentKind.APPLICATION)) == {
        "all-reduce",
        "parameter-server",
        "rpc-library",
        "storage-target",
    }


@pytest.mark.parametrize("name", available(ContentKind.APPLICATION))
def test_a_search_inside_an_application_stays_there(name: str) -> None:
    application, rng = load_application(name), Random(22)
    space = reached(application)

    assert space.name == application.id == name
    for _ in range(100):
        point = space.sample(rng)
        assert any(traffic.holds(point) for traffic in application.traffic)
        assert application.space.complaints(point) == []
        assert application.space.violations(plain_sibling(point, space)) == []


# --- spaces -----------------------------------------------------------------------------------------------------------


def test_the_spaces_that_the_manual_names_are_there() -> None:
    assert {"nsdi22", "soft-roce"} <= set(SPACES)


@pytest.mark.parametrize("name", SPACES)
def test_the_plain_workload_of_a_space_lies_in_it(name: str) -> None:
    space = load_space(name)

    assert space.name == name
    assert space.complaints(space.base) == []


@pytest.mark.parametrize("name", SPACES)
def test_random_points_and_their_siblings_break_no_rule_of_the_space(name: str) -> None:
    space, rng = load_space(name), Random(22)

    for _ in range(300):
        point = space.sample(rng)
        assert space.complaints(point) == []
        assert space.violations(plain_sibling(point, space)) == []


def test_the_space_of_the_paper_has_about_ten_to_the_36_points() -> None:
    assert 35.5 <= load_space("nsdi22").log10_size() <= 36.5


def test_the_space_of_the_paper_has_its_ranges() -> None:
    dimensions = load_space("nsdi22").dimensions
    ranges = {name: (d.low, d.high) for name, d in dimensions.items() if isinstance(d, Ordered)}

    assert ranges == {
        "mrs_per_qp": (1, 200_000),
        "mr_bytes": (4096, 4 << 20),
        "qps": (1, 20_000),
        "mtu": (256, 4096),
        "wqe_batch": (1, 128),
        "sge_count": (1, 16),
        "send_wq_depth": (1, 16_384),
        "recv_wq_depth": (1, 16_384),
    }
    assert dimensions["mtu"].size() == 5
    assert set(dimensions["qp_type"].candidates()) == {QpType.RC, QpType.UC, QpType.UD}
    assert set(dimensions["opcode"].candidates()) == {Opcode.SEND, Opcode.WRITE, Opcode.READ}
    assert set(dimensions["memory"].candidates()) == set(dimensions["peer_memory"].candidates()) == set(Memory)
    assert load_space("nsdi22").limits.total_mrs == 200_000


def test_the_boundaries_of_the_paper_are_steps_of_the_message_ladder() -> None:
    messages = load_space("nsdi22").dimensions["messages"]

    assert isinstance(messages, Vector)
    assert {1 << 10, 2 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10} <= set(messages.element.ladder)


def test_soft_roce_varies_everything_that_the_driver_honours() -> None:
    space = load_space("soft-roce")

    assert set(FIELD_NAMES) - set(space.dimensions) == {
        "numa_node",
        "peer_numa_node",
        "memory",
        "peer_memory",
        "offered_bps",  # the agent keeps send queues full
        *BESIDE_TRAFFIC,  # it is for neighbours
        "huge_pages",  # the machines keep none, and who gives them some may add the dimension
    }


def test_soft_roce_never_retries_for_ever() -> None:
    space, rng = load_space("soft-roce"), Random(7)

    for _ in range(200):
        point = space.sample(rng)
        assert point.rnr_retry < 7  # 7 is without limit
        assert point.timeout > 0  # 0 is without limit
        assert point.min_rnr_timer > 0  # 0 is the longest wait of all


def test_only_path_mtus_that_exist_are_in_a_space() -> None:
    space = load_space("soft-roce")

    assert space.complaints(space.base.with_(mtu=1500))
    assert space.narrowed({}, {"mtu": 1500}).dimensions["mtu"].candidates() == (256, 512, 1024)


@pytest.mark.parametrize("name", SPACES)
def test_a_shipped_space_says_of_each_dimension_what_another_value_takes(name: str) -> None:
    dimensions = load_space(name).dimensions
    stated = read_document(SPACES[name]).mapping("dimensions")  # those of a base stand in its file
    allowed = {each: changes_with(each) for each in dimensions if each in stated}
    assert re.findall(r"^    changes: (\w+)$", SPACES[name].read_text(), re.MULTILINE) == list(allowed.values())
    assert {each: dimensions[each].changes for each in allowed} == allowed


def test_another_value_takes_what_the_verbs_api_says_unless_the_space_is_more_cautious(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "dimensions:\n"
        "  qps: {ladder: [1, 8], plain: 8, changes: setup}\n"
        "  sge_count: {ladder: [1, 8], plain: 8}\n"
        "  messages: {max_length: 2, ladder: [64, 128], plain: [64], changes: setup}\n"
        "  qp_type: {values: [RC, UC], plain: RC}\n"
    )
    changes = [dimension.changes for dimension in load_space(str(path)).dimensions.values()]
    assert changes == [Changes.SETUP, Changes.TRAFFIC, Changes.SETUP, Changes.SETUP]


def test_both_directions_are_kept_in_a_sibling_only_where_one_cpu_does_both() -> None:
    assert load_space("soft-roce").dimensions["direction"].keep_in_sibling
    assert not load_space("nsdi22").dimensions["direction"].keep_in_sibling


# --- recipes and catalogs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", available(ContentKind.RECIPE))
def test_a_shipped_recipe_loads_under_its_name(name: str) -> None:
    assert load_recipe(name).name == name


def test_the_recipe_of_the_paper_has_its_figures() -> None:
    recipe = load_recipe("nsdi22")

    assert recipe.strategy is StrategyName.ANNEALING
    assert recipe.ranking_points == 10
    assert (recipe.thresholds.pause_ratio, recipe.thresholds.throughput_deficit) == (0.001, 0.2)
    assert recipe.budget == "10h"


FORMER = """\
strategy: guided
put_off: 3
confirmation:
  needed: 2
  disturbed: 0.05
extraction:
  missed: 0.02
  stray: 0.03
"""


def test_keys_of_a_recipe_of_the_first_release_are_read_and_their_present_names_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mine.yaml").write_text(FORMER)
    recipe = load_recipe(str(tmp_path / "mine.yaml"))
    assert recipe.explain_after_sightings == 3
    assert (recipe.noise.stray_rate, recipe.noise.miss_rate) == (0.05, 0.02)
    assert [message.partition("mine.yaml")[2].partition(";")[0] for message in caplog.messages] == [
        ":2: put_off is now called explain_after_sightings",
        ":5: disturbed is now called noise: stray_rate",
        ":7: missed is now called noise: miss_rate",
        ":4: needed is no longer used and is not read",
        ":8: stray is no longer used and is not read",
    ]


LATER = """\
strategy: guided
confirmation:
  needed: 3
  runs: 9
  clear_pause: 0.01
  healthy_false_positive_rate: 0.04
extraction:
  false_positive_rate: 0.03
  false_negative_rate: 0.02
"""


def test_keys_of_later_releases_are_moved_to_the_noise_or_remarked_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mine.yaml").write_text(LATER)
    recipe = load_recipe(str(tmp_path / "mine.yaml"))
    assert (recipe.noise.stray_rate, recipe.noise.miss_rate) == (0.04, 0.02)
    assert recipe.confirmation.runs == 9
    assert [message.partition("mine.yaml")[2].partition(";")[0] for message in caplog.messages] == [
        ":6: healthy_false_positive_rate is now called noise: stray_rate",
        ":9: false_negative_rate is now called noise: miss_rate",
        ":3: needed is no longer used and is not read",
        ":5: clear_pause is no longer used and is not read",
        ":8: false_positive_rate is no longer used and is not read",
    ]


def test_an_old_key_does_not_replace_the_rate_that_the_noise_states(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(LATER + "noise:\n  stray_rate: 0.02\n")
    with pytest.raises(ContentError, match="healthy_false_positive_rate"):
        load_recipe(str(tmp_path / "mine.yaml"))


def test_a_recipe_with_both_names_of_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(FORMER + "explain_after_sightings: 4\n")
    with pytest.raises(ContentError, match="put_off"):
        load_recipe(str(tmp_path / "mine.yaml"))


def test_every_field_of_a_recipe_but_its_name_can_be_written_in_a_file(tmp_path: Path) -> None:
    recipe = Recipe("mine", StrategyName.GUIDED, budget="7runs", explain=False, audits=3)
    written = asdict(recipe)
    del written["name"]
    (tmp_path / "mine.yaml").write_text(json.dumps(written))
    assert load_recipe(str(tmp_path / "mine.yaml")) == recipe

    (tmp_path / "mine.yaml").write_text("name: mine\nstrategy: guided\n")
    with pytest.raises(ContentError, match=r"mine\.yaml:1: unknown key 'name'; known: audits, bayesian,"):
        load_recipe(str(tmp_path / "mine.yaml"))


@pytest.mark.parametrize("driver", available(ContentKind.CATALOG))
def test_a_shipped_catalog_names_its_driver_and_explains_every_counter(driver: str) -> None:
    catalog = load_catalog(driver)

    assert catalog.driver == driver
    assert all(counter.meaning for counter in catalog.counters)
    assert catalog.of_kind(CounterKind.PERFORMANCE)
    assert catalog.of_kind(CounterKind.DIAGNOSTIC)


def test_rxe_has_its_fifteen_counters_and_no_pause() -> None:
    catalog = load_catalog("rxe")

    assert sum(counter.source == "hw_counters" for counter in catalog.counters) == 15
    assert catalog.of_kind(CounterKind.PAUSE) == ()
    roles = {counter.name: counter.role for counter in catalog.counters if counter.role}
    assert roles == {
        "rcvd_pkts": Role.RX_PACKETS,
        "out_of_seq_request": Role.OUT_OF_SEQUENCE,
        "send_rnr_err": Role.RNR_NAK,
    }


def test_the_simulated_testbed_has_at_least_nine_diagnostic_counters_with_the_two_that_the_paper_names() -> None:
    diagnostics = {counter.name for counter in load_catalog("simulated").of_kind(CounterKind.DIAGNOSTIC)}

    assert len(diagnostics) >= 9
    assert {"receive_wqe_cache_miss", "pcie_internal_back_pressure"} <= diagnostics


# --- the paper's anomalies --------------------------------------------------------------------------------------------


def test_the_paper_has_eighteen_anomalies_in_order() -> None:
    assert [number(reference) for reference in REFERENCES] == list(range(1, 19))
    assert REFERENCES[0] == load_reference("nsdi22-01")


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.id)
def test_a_trigger_satisfies_its_conditions_and_lies_in_the_space_of_the_paper(reference: ReferenceAnomaly) -> None:
    assert reference.conditions.covers(reference.trigger)
    assert load_space("nsdi22").complaints(reference.trigger) == []


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.id)
def test_the_plain_workload_shows_no_anomaly(reference: ReferenceAnomaly) -> None:
    assert not reference.conditions.covers(load_space("nsdi22").base)


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.id)
def test_an_anomaly_shows_on_f_or_h_with_a_symptom_that_a_verdict_can_have(reference: ReferenceAnomaly) -> None:
    assert reference.subsystem == ("F" if number(reference) <= 13 else "H")
    assert Symptom(reference.symptom) in {Symptom.PAUSE, Symptom.LOW_THROUGHPUT}


def test_five_anomalies_lose_throughput_and_the_others_pause() -> None:
    assert [number(r) for r in REFERENCES if r.symptom == "low_throughput"] == [2, 6, 7, 8, 14]


def test_seven_anomalies_were_fixed_and_one_is_bypassed() -> None:
    assert [number(r) for r in REFERENCES if r.fix is FixStatus.FIXED] == [3, 9, 10, 11, 12, 17, 18]
    assert [number(r) for r in REFERENCES if r.fix is FixStatus.BYPASS] == [13]


def test_seven_is_about_regions_and_eight_about_queue_pairs() -> None:
    seven, eight = REFERENCES[6], REFERENCES[7]

    assert seven.trigger.qps * seven.trigger.mrs_per_qp == 24 * 1024
    assert eight.trigger.qps == 480
    assert "total_mrs >= 12000" in str(seven.conditions)
    assert "qps >= 450" in str(eight.conditions)


@pytest.mark.parametrize("index", [9, 12])
def test_nine_and_twelve_mix_sizes_within_one_message(index: int) -> None:
    assert REFERENCES[index - 1].trigger.segments() == ((128, 65536, 1024),)


def test_sums_of_queue_pairs_over_both_directions_are_where_the_paper_needs_them() -> None:
    summed = [number(r) for r in REFERENCES if any(c.dimension == "total_qps" for c in r.conditions.conditions)]
    single = [number(r) for r in REFERENCES if any(c.dimension == "qps" for c in r.conditions.conditions)]

    assert (summed, single) == ([4, 14, 18], [2, 6, 8, 10, 15, 16, 17])


def test_every_shipped_yaml_file_is_one_that_a_loader_finds() -> None:
    root = Path(__file__).parents[2]
    found = {path.resolve() for kind in ContentKind for path in available(kind).values()}
    shipped = {
        path.resolve() for folder in ("workloads", "search", "counters") for path in (root / folder).rglob("*.*")
    }

    assert shipped <= found
