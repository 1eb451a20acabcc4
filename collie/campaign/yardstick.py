"""Whether a run of plain traffic can serve as a reference for others. Pure."""

from __future__ import annotations

from collie.detect.symptom import Verdict
from collie.ports import HostLost, Measured, RunResult, SetupFailed, Unsupported


def unfit(result: RunResult, unbounded: Verdict | None) -> str:
    """Return why a run cannot, as a clause without a subject, or an empty string.

    Args:
        result: of the run.
        unbounded: its verdict without a bound, or None without a measurement.
    """
    match result:
        case Measured(measurement) if unbounded is not None:
            if unbounded.is_normal:
                return "" if measurement.stable else "did not hold one level"
            word = "is itself anomalous" if unbounded.is_anomalous else "was inconclusive"
            return f"{word}: {unbounded.reason}"
        case SetupFailed(cause, detail):
            return f"could not be set up: {cause}: {detail}"
        case Unsupported(reason):
            return f"cannot run here: {reason}"
        case HostLost(host, detail):
            return f"cost host {host}: {detail}"
    return "was not measured"
