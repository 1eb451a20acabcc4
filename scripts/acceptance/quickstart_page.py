"""Write docs/evidence/quickstart.md: what the search of the quickstart finds.

    python scripts/acceptance/quickstart_page.py

To be run whenever a change of the engine changes that search.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from collie.workloads.units import format_seconds, format_value

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "quickstart.md"
SEARCH = "collie search --subsystem F --budget 10h --seed 1"


def main() -> None:
    """Run the search and write the page."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with TemporaryDirectory() as folder:
        words = [*SEARCH.split()[1:], "--format", "json"]
        ran = subprocess.run([sys.executable, "-m", "collie", *words], capture_output=True, cwd=folder, check=False)
    PAGE.write_text(page(json.loads(ran.stdout)))


def page(found: dict[str, Any]) -> str:
    """Return the page of a search, from its JSON."""
    anomalies = found["anomalies"]
    again: dict[str, list[str]] = {}
    for anomaly in anomalies:
        if anomaly["same_as"]:
            again.setdefault(anomaly["same_as"], []).append(anomaly["id"])
    causes = [anomaly for anomaly in anomalies if not anomaly["same_as"]]
    explained = sum(anomaly["complete"] for anomaly in causes)
    joined = ", ".join(f"{cause} explains {_listed(others)}" for cause, others in again.items())
    rows = "\n".join(_row(anomaly) for anomaly in causes)
    return f"""# The search of the quickstart

`./scripts/quickstart` makes this search of the simulated subsystem F. It takes less than a minute, and the seed fixes \
its result.

<!-- needs: time -->
```sh
{SEARCH}
```

{found["runs"]} measurements on {found["set_ups"]} set-ups, in 10.0 h of testbed time, confirm \
{len(anomalies)} anomalies. \
{len(anomalies) - len(causes)} of them have the cause of another one, as controls showed: {joined}.
The table has the other {len(causes)}, of which {explained} have a complete explanation. *Fresh runs* are drawn anew \
inside the conditions, and counted if they are anomalous.

| | symptom | severity | confirmed after | fresh runs | conditions |
|---|---|---|---|---|---|
{rows}

{found["failed_runs"]} runs could not be set up. The space has 10^35.8 workloads before constraints \
(`collie space show nsdi22`).
"""


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _row(anomaly: dict[str, Any]) -> str:
    shown, conditions = "", "not explained to the end" if anomaly["features"] else "not explained"
    if anomaly["complete"]:
        shown = f"{anomaly['fresh_shows']} of {anomaly['fresh_runs']}"
        conditions = ", ".join(f"`{_condition(each)}`" for each in anomaly["features"])
    severity = 100 * anomaly["severity"]
    cells = (
        anomaly["id"],
        anomaly["symptom"].replace("_", " "),
        f"{severity:.0f}%" if severity >= 10 else f"{severity:.1f}%",
        format_seconds(anomaly["found_at_seconds"]),
        shown,
        conditions,
    )
    return f"| {' | '.join(cells)} |"


def _condition(feature: dict[str, Any]) -> str:
    value = feature["value"]
    if isinstance(value, list):
        return f"{feature['dimension']} in {{{', '.join(format_value(each) for each in value)}}}"
    return f"{feature['dimension']} {feature['op']} {format_value(value)}"


if __name__ == "__main__":
    main()
