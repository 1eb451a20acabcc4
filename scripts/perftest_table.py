"""Write the table of docs/evidence/perftest.md: the paper's 18 anomalies in perftest.

Run it after a change to what perftest is known to express: `python scripts/perftest_table.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from collie.content.anomalies import load_references
from collie.perftest.command import Expression, command_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "evidence" / "perftest.md"
FIRST, LAST = "<!-- written by scripts/perftest_table.py -->", "<!-- until here -->"
IN_THE_PAPER = {"nsdi22-03", "nsdi22-08", "nsdi22-13", "nsdi22-15"}


def table() -> str:
    """Return the table in Markdown."""
    rows = ["| anomaly | perftest | paper | commands, or what perftest lacks |", "|---|---|---|---|"]
    for reference in load_references("nsdi22"):
        expression = command_of(reference.trigger, reference.conditions)
        mine, theirs = ("yes" if said else "no" for said in (expression.is_faithful, reference.id in IN_THE_PAPER))
        rows.append(f"| {reference.id} | {mine} | {theirs} | {'<br>'.join(_cell(expression))} |")
    return "\n".join(rows)


def _cell(expression: Expression) -> Iterator[str]:
    for pair in expression.pairs:
        far = [end.role for end in (pair.client, pair.server) if end.numa_node]
        node = f" (host {' and '.join(far)} under numactl on a far node)" if far else ""
        yield f"{pair.client.role} to {pair.server.role}{node}: `{shlex.join(pair.client.argv)}`"
    for lack in expression.lacks:
        asked = list(lack.asked) if isinstance(lack.asked, tuple) else lack.asked
        yield f"`{lack.field}` {asked}: {lack.reason}"
    if expression.requires:
        yield f"needs {'; '.join(expression.requires)}"


def page(text: str) -> str:
    """Return the page with its table written anew."""
    before, _, rest = text.partition(FIRST)
    return f"{before}{FIRST}\n\n{table()}\n\n{LAST}{rest.partition(LAST)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
