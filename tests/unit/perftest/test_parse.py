"""perftest command lines: what a pasted one runs, what perftest expresses of the paper's anomalies."""

from __future__ import annotations

from typing import Any

import pytest

from collie.content.anomalies import load_references
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.errors import UsageError
from collie.perftest.command import command_of
from collie.perftest.parse import read, workload_of
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth
from collie.workloads.reference import ReferenceAnomaly
from collie.workloads.workload import Direction, Memory

REFERENCES = load_references("nsdi22")

SPACE = load_space("nsdi22")
# The paper reproduced these with perftest after careful tuning (section 7.1).
PAPER = {"nsdi22-03", "nsdi22-08", "nsdi22-13", "nsdi22-15"}
# And these, because of what perftest can do that the paper did not count: lists of receives (1, 5), processes under
# numactl (11) and in GPU memory (12), one process per direction (18); the rest need nothing but queue pairs and sizes.
BEYOND = {"nsdi22-01", "nsdi22-02", "nsdi22-05", "nsdi22-11", "nsdi22-12", "nsdi22-16", "nsdi22-17", "nsdi22-18"}
LACKING = {
    "nsdi22-04": {"sge_count"},
    "nsdi22-06": {"sge_count"},
    "nsdi22-07": {"mrs_per_qp"},
    "nsdi22-09": {"sge_count", "sge_split"},
    "nsdi22-10": {"messages"},
    "nsdi22-14": {"sge_count"},
}


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        # perftest's own defaults
        ("ib_write_bw", {"opcode": "WRITE", "qps": 1, "messages": (65536,), "send_wq_depth": 128, "signal_every": 1}),
        ("ib_send_bw -D 5", {"opcode": "SEND", "recv_wq_depth": 512, "rnr_retry": 7, "min_rnr_timer": 12}),
        ("ib_send_bw", {"recv_wq_depth": 512}),
        ("ib_send_bw -c UD -s 64", {"recv_wq_depth": 1000}),  # as many as it sends messages
        ("ib_send_bw -c UD -s 64 -n 5000", {"recv_wq_depth": 5000}),
        ("ib_send_bw -c UD", {"messages": (4096,)}),  # a datagram is one packet
        ("ib_write_bw -s 64", {"signal_every": 100, "mr_bytes": 4096}),
        ("ib_write_bw -s 64 -t 16", {"signal_every": 16}),
        ("ib_write_bw -s 64 -l 8", {"wqe_batch": 8, "signal_every": 1, "sq_sig_all": False}),
        ("ib_write_bw -s 64 -l 8 -Q 1", {"sq_sig_all": True}),
        ("ib_send_bw -t 2048 -r 7", {"send_wq_depth": 1000, "recv_wq_depth": 8}),  # 1000 messages, and even
        ("ib_send_bw -D 5 -t 2048", {"send_wq_depth": 2048}),
        ("ib_atomic_bw", {"opcode": "FETCH_ADD", "messages": (8,)}),
        ("ib_atomic_bw -A CMP_AND_SWAP", {"opcode": "CMP_SWP"}),
        ("ib_send_bw -c XRC", {"qp_type": "XRC", "srq": True}),
        ("ib_write_bw -c SRD -s 64", {"signal_every": 1}),
        # spellings
        ("ib_write_bw --size=1M --qp 16 -m1024", {"messages": (1 << 20,), "qps": 16, "mtu": 1024}),
        ("ib_write_bw --write_with_imm -r 64", {"opcode": "WRITE_WITH_IMM", "recv_wq_depth": 64}),
        ("$ sudo /usr/bin/ib_read_bw -d mlx5_0 -x 3 -bF -o 4 10.0.0.2 > log", {"direction": "bidirectional"}),
        ("ib_read_bw -o 4", {"max_rd_atomic": 4, "max_dest_rd_atomic": 4}),
        ("ib_write_bw --tclass=106 -u 8 -I 64", {"traffic_class": 106, "timeout": 8, "max_inline_data": 64}),
        ("ib_write_bw -R -T 105 --retry_count=3", {"traffic_class": 105, "retry_cnt": 3}),
        ("ib_write_bw --retry_count=3", {"retry_cnt": 7}),
        ("ib_send_bw --use-srq --use_hugepages", {"srq": True, "huge_pages": True}),
        ("ib_write_bw --use_cuda=0 host", {"memory": "gpu", "peer_memory": "gpu"}),
        # hosts
        ("ib_write_bw server", {"loopback": False, "remote": True, "direction": "unidirectional"}),
        ("ib_write_bw localhost", {"loopback": True, "remote": False}),
    ],
)
def test_what_a_line_runs(line: str, fields: dict[str, Any]) -> None:
    workload = workload_of(line)
    assert {name: workload.get(name) for name in fields} == fields


def test_lines_of_one_moment_make_one_workload() -> None:
    line = "ib_write_bw -q 8 -s 262144 -l 16"
    both = workload_of(line, f"{line} -p 18516", f"{line} b", f"{line} -p 18516 127.0.0.1")
    assert both == workload_of(line).with_(loopback=True)
    assert workload_of(f"{line} a", f"{line} b").direction is Direction.BIDIRECTIONAL
    one_end = workload_of(line, f"{line} --use_cuda=0 b")
    assert (one_end.memory, one_end.peer_memory) == (Memory.GPU, Memory.DRAM)
    back = workload_of(f"{line} --reversed", f"{line} --reversed --use_cuda=0 b")
    assert (back.memory, back.peer_memory) == (Memory.DRAM, Memory.GPU)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["ib_write_bw -a"], "option -a: runs one size after another"),
        (["ib_write_bw --rate_limit=5"], "option --rate_limit: slows the sender down"),
        (["ib_write_bw --tx_depth 8"], "option --tx_depth is unknown; did you mean --tx-depth?"),
        (["ib_write_bw -k 8"], "option -k is unknown"),
        (["ib_write_bw -q"], "option -q requires argument"),
        (["ib_write_bw -q 8 --qp=8"], "option --qp is given twice"),
        (["ib_write_bw -q many"], "option -q: 'many' is no whole number"),
        (["ib_write_bw -q 20000"], "option -q: 20000 is too large; perftest takes at most 16384"),
        (["ib_write_bw -s 4G"], "option -s: '4G' is no whole number"),
        (["ib_write_bw -s 0"], "option -s: '0' is no size"),
        (["ib_write_bw -m 1500"], "option -m: 1500 is no path MTU"),
        (["ib_write_bw -n x"], "option -n: 'x' is no whole number from 1"),
        (["ib_write_bw -c RawEth"], "option -c: 'RawEth' is unknown; one of RC"),
        (["ib_write_bw -c UD"], "UD queue pairs cannot WRITE"),
        (["ib_read_bw -I 64"], "option -I has no effect on READ"),
        (["ib_write_bw -l 16 -Q 64"], "option -Q 64: perftest refuses a post list"),
        (["ib_write_bw -l 256 -D 5"], "wqe_batch 256 is deeper than send_wq_depth 128"),
        (["ib_atomic_bw -A SWAP"], "ib_atomic_bw has no operation --atomic_type=SWAP"),
        (["ib_write_lat"], "ib_write_lat keeps no queue full"),
        (["raw_ethernet_bw"], "raw_ethernet_bw uses no RDMA"),
        (["iperf3 -c host"], "no perftest program"),
        (["ib_write_bw 'host"], "No closing quotation"),
        (["ib_write_bw a b"], "names one server at most"),
        (["ib_write_bw -q 8", "ib_write_bw -q 9 b"], "differ in qps"),
        (["ib_write_bw b", "ib_write_bw -p 9 b"], "two clients connect to the same host"),
        (["ib_write_bw -p 8", "ib_write_bw -p 9"], "2 lines are servers (they name no host) for 0 clients"),
        (["ib_write_bw -p 8", "ib_write_bw -p 9", "ib_write_bw -p 9 b"], "they name no host) for 1 client: "),
        (["ib_write_bw b", "ib_write_bw c", "ib_write_bw d"], "more than two hosts"),
        ([], "no perftest line"),
    ],
)
def test_a_line_that_is_no_workload(lines: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        workload_of(*lines)
    assert message in str(error.value)


def test_an_option_that_is_like_none_gets_no_suggestion() -> None:
    with pytest.raises(UsageError, match=r"option --foo is unknown$"):
        workload_of("ib_write_bw --foo")


@pytest.mark.parametrize(
    ("number", "lines", "harmless"),
    [
        ("03", ["ib_read_bw -q 8 -s 4M -m 1024 host"], ["ib_read_bw -q 8 -s 4M -m 4096 host"]),
        ("08", ["ib_write_bw -q 480 -s 512 -t 16 -m 1024 host"], ["ib_write_bw -q 480 -s 512 -t 128 -m 1024 host"]),
        (
            "13",
            ["ib_write_bw -s 256K -q 8 host", "ib_write_bw -s 256K -q 8 localhost"],
            ["ib_write_bw -s 256K -q 8 host"],
        ),
        ("15", ["ib_send_bw -c UD -q 32 -s 1024 -r 64 host"], ["ib_send_bw -c UD -q 8 -s 1024 -r 64 host"]),
    ],
)
def test_a_line_meets_the_conditions_that_the_paper_says(number: str, lines: list[str], harmless: list[str]) -> None:
    conditions = next(each.conditions for each in REFERENCES if each.id == f"nsdi22-{number}")
    assert conditions.covers(workload_of(*lines))
    assert not conditions.covers(workload_of(*harmless))


def test_what_had_to_be_assumed_is_said() -> None:
    reported = " ".join(read("numactl -N 1 ib_send_bw -q 2 -b -l 8 -Q 4 -t 2000 -r 2000").remarks)
    for word in ("Without -m", "share one memory region", "receives by 1", "-b each", "numactl", "1000 messages"):
        assert word in reported
    assert "one per post of 8" in reported
    assert read("ib_write_bw -m 1024 -D 5 b").remarks == ()


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.id)
def test_perftest_expresses_what_the_simulator_confirms(reference: ReferenceAnomaly) -> None:
    expression = command_of(reference.trigger, reference.conditions)
    assert expression.is_faithful == (reference.id in PAPER | BEYOND)
    assert {lack.field for lack in expression.lacks} == LACKING.get(reference.id, set())
    assert bool(expression.pairs) == expression.is_faithful
    subsystem = load_subsystem(reference.subsystem, SubsystemFile).with_settings(reference.settings)
    truth = Truth(subsystem, SPACE)
    displayed, verdict = truth.mechanism(expression.runs), truth.verdict(expression.runs)
    if expression.is_faithful:
        assert (displayed, verdict.symptom) == (truth.mechanism(reference.trigger), reference.symptom)
    else:
        assert verdict.is_normal
