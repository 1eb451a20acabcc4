"""Each file under bad/ says, on the offending line behind `###`, what its loader should complain about.

A line that begins with `###` is about the file as a whole. The word before the file's first dash names its loader.
Whatever else stands in a file, a loader returns or raises a ContentError.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from collie.content.anomalies import load_reference
from collie.content.applications import load_application
from collie.content.catalogs import load_catalog
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.content.workload import load_workload
from collie.errors import ContentError
from collie.simulator.subsystem import SubsystemFile
from collie.workloads.feature import FEATURE_NAMES

LOADERS: dict[str, Callable[[str], object]] = {
    "anomaly": load_reference,
    "application": load_application,
    "catalog": load_catalog,
    "recipe": load_recipe,
    "space": load_space,
    "subsystem": lambda path: load_subsystem(path, SubsystemFile),
    "workload": load_workload,
}
FILES = sorted((Path(__file__).parent / "bad").glob("*.yaml"))


def expected(path: Path) -> list[tuple[int, str]]:
    found = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        code, *messages = line.split("### ")
        found += [(number if code.strip() else 0, message.strip()) for message in messages]
    return sorted(found)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_bad_file_gets_exactly_the_complaints_that_it_names(path: Path) -> None:
    load = LOADERS[path.stem.partition("-")[0]]

    with pytest.raises(ContentError) as caught:
        load(str(path))

    assert sorted((problem.line, problem.message) for problem in caught.value.problems) == expected(path)
    assert {problem.path for problem in caught.value.problems} <= {str(path), str(path.relative_to(Path.cwd()))}


@pytest.mark.parametrize("kind", LOADERS)
def test_every_loader_has_bad_files(kind: str) -> None:
    assert [path for path in FILES if path.stem.startswith(f"{kind}-")]


WORDS = (
    *FEATURE_NAMES,
    *("dimensions", "limits", "fixed", "values", "range", "ladder", "step", "plain", "max_length", "keep_in_sibling"),
    *(
        "changes",
        "strategy",
        "schedule",
        "thresholds",
        "confirmation",
        "extraction",
        "budget",
        "driver",
        "counters",
        "name",
    ),
    *("traffic", "common", "keep", "space", "any"),
    *("title", "trigger", "conditions", "feature", "op", "value", "symptom", "severity", "delivered", "fix", "status"),
)
"""Keys that lead deep into the loaders."""

SCALARS = st.one_of(
    st.sampled_from([None, True, False, 0, -1, 1, 64, 1024, 10**17, 10**40, 0.5, 1e300, "", "4KiB", "9" * 400, "even"]),
    st.sampled_from(["RC", "UD", "READ", "SEND", "bidirectional", ">=", "in", "10h", "3runs", *WORDS]),
    st.text(max_size=20),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner),
    max_leaves=15,
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("content") / "file.yaml"


def load_all(path: Path) -> None:
    for load in LOADERS.values():
        with contextlib.suppress(ContentError):
            load(str(path))


@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode(errors="surrogatepass")))
@settings(max_examples=60)
def test_no_bytes_break_a_loader(scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    load_all(scratch)


@given(data=st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=8))
@settings(max_examples=60)
def test_no_values_break_a_loader(scratch: Path, data: dict[str, object]) -> None:
    scratch.write_text(json.dumps(data))
    load_all(scratch)


@given(path=st.sampled_from(FILES), data=st.data())
@settings(max_examples=60)
def test_no_edit_of_a_file_breaks_a_loader(scratch: Path, path: Path, data: st.DataObject) -> None:
    lines = path.read_text().splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    line = lines[at]
    cut = data.draw(st.integers(0, len(line)))
    lines[at] = (
        line[:cut] + data.draw(st.sampled_from(["", ":", "- ", "[", "}", "'", "&a ", "  ", "\t", "#"])) + line[cut:]
    )
    scratch.write_text("\n".join(lines))
    load_all(scratch)
