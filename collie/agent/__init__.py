"""The program on each host under test: it drives RDMA traffic, samples counters, and ends with its controller.

A resident agent answers requests and samples counters. Engines, forked for each run, own all verbs objects, so that
SIGKILL ends a hung step. The program needs Python 3.9 and libibverbs or pyverbs 44, and imports nothing else of Collie.
docs/reference/agent-protocol.md specifies its requests, replies and samples.
"""

PROTOCOL = 2
