"""The gate: what has become of the anomalies of a baseline, and is there a new one?

1. The known anomalies, then the baseline's own, are compared pair by pair (`detect.compare`).
2. So are their healthy neighbours: each with one condition of an explanation broken. A healthy candidate needs no pair.
3. The search looks for what is new with what is left of the budget, but for what it takes to compare its finds. What is
   known to show is not searched again.

The baseline answers from a testbed of its own, or from its record. A record answers each question with the one reading
that it has of that very workload. It cannot be asked again, so a healthy reading of it counts as evidence only as often
as the baseline measured healthy there (`Record.healthy`); without enough of it nothing is called new.
"""
