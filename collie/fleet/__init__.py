"""The odd host of a fleet: the battery, its readings, the judgement. Pure (`docs/how-to/find-the-odd-host.md`)."""
