"""From the samples of hosts to a measurement: window, rates, ratios, health of generators and counters. Pure."""
