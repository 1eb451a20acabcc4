"""The reference says what the program says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from collie.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]


PAGES: dict[str, str] = runpy.run_path(str(ROOT / "scripts" / "generate_reference"), run_name="reference")["pages"]()


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_up_to_date(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert written == PAGES[name], "run scripts/reference"


def test_every_command_and_every_kind_of_content_is_in_it() -> None:
    for name in cli.list_commands(None):  # type: ignore[arg-type]  # it names them without a context
        assert f"\n## collie {name}" in PAGES["commands.md"]
    for field in ("qps", "keep_in_sibling", "false_chance", "refresh_seconds", "gid_index", "based_on", "miss_seconds"):
        assert f"`{field}`" in PAGES["content.md"]
