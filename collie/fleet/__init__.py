"""The odd host of a fleet: battery, readings, judgement. Pure (`docs/explanation/fleet-judgement.md`)."""
