"""The gate: the state of a baseline's anomalies on a candidate, and new anomalies.

1. The known anomalies, then the baseline's, are compared pair by pair (`detect.compare`).
2. So are their healthy neighbours, which break one condition each. A neighbour healthy on the candidate needs no pair.
3. The search uses the rest of the budget, less a reserve to compare its finds. It skips anomalies already present.

The baseline answers from a testbed or from its record. A record gives one reading per workload and cannot be measured
again. A healthy reading therefore counts once for each healthy run on record (`Record.healthy`). Without
enough of these runs, no anomaly is called new.
"""
