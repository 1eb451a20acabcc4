"""Which host of a fleet is the odd one: the battery, what it read, the judgement. Pure (`docs/fleet.md`)."""
