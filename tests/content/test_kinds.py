"""A file of one kind where another is wanted gets one line, and no list of keys is printed twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from collie.content.anomalies import load_reference
from collie.content.applications import is_application, load_application
from collie.content.catalogs import load_catalog
from collie.content.inventory import load_inventory
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.content.workload import load_workload
from collie.errors import ContentError
from collie.simulator.subsystem import SubsystemFile
from collie.workloads.workload import FIELD_NAMES

ROOT = Path(__file__).parents[2]
LOADERS: Mapping[str, Callable[[str], object]] = {
    "hosts file": load_inventory,
    "space": load_space,
    "anomaly": load_reference,
    "recipe": load_recipe,
    "catalog": load_catalog,
    "subsystem": lambda path: load_subsystem(path, SubsystemFile),
    "application": load_application,
    "workload": load_workload,
}
FILES = {
    "hosts file": ("hosts.example.yaml", "--hosts {}"),
    "space": ("workloads/spaces/nsdi22.yaml", "--space {}"),
    "anomaly": ("workloads/anomalies/nsdi22-01.yaml", "collie reproduce {}"),
    "recipe": ("search/recipes/guided.yaml", "--recipe {}"),
    "catalog": ("counters/rxe/catalog.yaml", "collie counters list"),
    "subsystem": ("collie/simulator/subsystems/F.yaml", "--subsystem {}"),
    "application": ("workloads/applications/rpc-library.yaml", "collie check {}"),
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("wanted", LOADERS)
def test_a_file_of_another_kind_is_named_with_what_takes_it(kind: str, wanted: str) -> None:
    path = str(ROOT / FILES[kind][0])
    if kind == wanted:
        LOADERS[wanted](path)
        return
    with pytest.raises(ContentError) as caught:
        LOADERS[wanted](path)
    (problem,) = caught.value.problems
    is_this, not_that = (f"{'an' if each[0] == 'a' else 'a'} {each}" for each in (kind, wanted))
    taken_by = FILES[kind][1].format(problem.path)
    assert (problem.line, problem.message) == (0, f"this is {is_this}, not {not_that}; `{taken_by}` takes it")


@pytest.mark.parametrize("wanted", [each for each in LOADERS if each != "workload"])
def test_a_workload_is_named_where_another_file_is_wanted(wanted: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("qp_type: RC\nopcode: SEND\n")
    with pytest.raises(ContentError, match=r"this is a workload, not an? .*`collie measure .*mine.yaml` takes it$"):
        LOADERS[wanted](str(path))


def test_a_file_with_only_a_title_is_an_application_without_traffic(tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    path.write_text("title: t\n")
    assert is_application(path)
    with pytest.raises(ContentError, match=r"key 'traffic' is missing$"):
        load_application(str(path))


def test_known_keys_are_listed_once_for_each_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("qp_type: RC\ncolour: red\nflavour: sweet\n")
    with pytest.raises(ContentError) as caught:
        load_workload(str(path))
    assert str(caught.value) == (
        f"{path}:2: unknown key 'colour'; known: {', '.join(FIELD_NAMES)}\n{path}:3: unknown key 'flavour'"
    )
