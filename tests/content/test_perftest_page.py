"""docs/evidence/perftest.md has the table that the program writes."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "perftest_table.py"


def test_the_table_is_up_to_date() -> None:
    script = runpy.run_path(str(SCRIPT))
    text = script["PAGE"].read_text()
    assert text == script["page"](text), "run python scripts/perftest_table.py"
    assert text.count("| nsdi22-") == 18
