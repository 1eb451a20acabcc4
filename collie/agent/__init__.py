"""The program on each host under test. It drives RDMA traffic, samples counters, and ends when its controller does.

A resident agent answers requests. Forked engines own all verbs objects of a run, so SIGKILL ends a hung step.
The program needs Python 3.9 and libibverbs or pyverbs 44. docs/reference/agent-protocol.md specifies the protocol.
"""

PROTOCOL = 3
