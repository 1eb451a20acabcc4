"""The odd host of a fleet: the battery, its readings, the judgement. Pure (`docs/explanation/fleet-judgement.md`)."""
