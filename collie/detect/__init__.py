"""From a measurement to a verdict: symptoms, bounds, judgement and confirmation. Pure: no I/O."""
