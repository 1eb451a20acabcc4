"""Files of the released prototype: read as workloads, refused where a workload cannot say it or nothing was sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collie.content.prototype import PrototypePoint, load_point, read_point, workloads_of
from collie.detect.symptom import Symptom
from collie.errors import ContentError
from collie.workloads.workload import EVEN, Direction, Memory, Opcode, QpType, Workload

A, B = "192.168.0.1", "192.168.0.2"
READINGS = """

tx_vport_rdma_unicast_bytes:  61.5
rx_vport_rdma_unicast_bytes:  0.3
tx_vport_rdma_unicast_packets:  1844352.0
tx_prio3_pause_duration:  {pause}
rx_prio3_pause_duration:  0.0
"""


def host(ip: str, **changed: Any) -> dict[str, Any]:
    queues = {"send_wq_depth": 64, "recv_wq_depth": 128, "send_batch": 8, "recv_batch": 8}
    memory = {"use_gpu": False, "numa_node": 0, "mr_num": 4, "buf_num": 2, "buf_size": 8192}
    return {"usr": "root", "ip": ip, "ibdev": "mlx5_0", **memory, **queues, **changed}


def traffic(from_: str = A, to: str = B, **changed: Any) -> dict[str, Any]:
    ends = {"client": host(from_), "server": host(to)}
    typical = {"process_num": 4, "qp_num": 2, "mtu": 3, "qp_type": "RC", "reqs": "w_1_4096,", "recvs": "1_65536,"}
    return {**typical, **ends, **changed}


def loaded(folder: Path, *traffics: dict[str, Any], readings: str = "", which: str = "") -> PrototypePoint:
    path = folder / "12"
    path.write_text(json.dumps({"Traffics": list(traffics)}) + readings)
    return load_point(f"{path}{which}")


def complaint(folder: Path, *traffics: dict[str, Any], which: str = "") -> str:
    with pytest.raises(ContentError) as error:
        loaded(folder, *traffics, which=which)
    return str(error.value)


def test_one_traffic_is_one_workload(tmp_path: Path) -> None:
    reads = traffic(reqs="r_2_128_65408,", mtu=5, server=host(B, use_gpu=True, numa_node=1))
    point = loaded(tmp_path, reads, readings=READINGS.format(pause=25000.0))
    found = point.workload
    assert (found.opcode, found.qp_type, found.mtu, found.qps) == (Opcode.READ, QpType.RC, 4096, 8)
    assert (found.messages, found.sge_count, found.sge_split) == ((65536,), 2, (128,))
    assert (found.mrs_per_qp, found.mr_bytes) == (2, 65536)  # no smaller than a message
    assert (found.wqe_batch, found.send_wq_depth, found.recv_wq_depth) == (8, 64, 128)
    assert (found.memory, found.peer_memory, found.peer_numa_node) == (Memory.DRAM, Memory.GPU, 1)
    assert found.direction is Direction.UNIDIRECTIONAL
    assert point.symptom is Symptom.PAUSE
    assert any("NUMA" in remark for remark in point.remarks)


def test_a_request_vector_takes_turns(tmp_path: Path) -> None:
    found = loaded(tmp_path, traffic(reqs="w_1_64,w_1_1024,r_1_4096,")).workload
    assert found.turn == ((Opcode.WRITE, 64), (Opcode.WRITE, 1024), (Opcode.READ, 4096))
    assert (found.sge_count, found.sge_split) == (1, EVEN)
    cut = loaded(tmp_path, traffic(reqs="w_2_32_64,w_4_32_32_32_32,"))
    assert (cut.workload.sge_count, cut.workload.sge_split) == (4, EVEN)
    assert any("cut in several ways" in remark for remark in cut.remarks)


def test_unlike_traffics_are_a_workload_each_with_the_other_ones_way(tmp_path: Path) -> None:
    def of(*traffics: dict[str, Any]) -> list[Workload]:
        return workloads_of(read_point(json.dumps({"Traffics": list(traffics)})))

    forth, back = traffic(), traffic(B, A, mtu=5)
    alone = [loaded(tmp_path, each).workload for each in (forth, back)]
    assert of(forth, back) == [each.with_(direction=Direction.BIDIRECTIONAL) for each in alone]
    assert of(forth, traffic(B, B, mtu=5)) == [each.with_(loopback=True) for each in alone]
    assert of(forth, traffic(B, A)) == [alone[0].with_(direction=Direction.BIDIRECTIONAL)]
    with pytest.raises(ValueError, match="cannot have sent anything"):
        of(forth, traffic(B, A, client=host(B, send_batch=65)))


def test_alike_traffics_are_one_workload(tmp_path: Path) -> None:
    both = loaded(tmp_path, traffic(), traffic(B, A)).workload
    assert both == loaded(tmp_path, traffic()).workload.with_(direction=Direction.BIDIRECTIONAL)
    to_itself = loaded(tmp_path, traffic(), traffic(B, B)).workload
    assert to_itself == loaded(tmp_path, traffic()).workload.with_(loopback=True)
    alone = loaded(tmp_path, traffic(A, A)).workload
    assert (alone.loopback, alone.remote) == (True, False)


def test_unlike_traffics_are_run_one_by_one(tmp_path: Path) -> None:
    unlike = traffic(), traffic(B, A, mtu=4)
    assert "runs 2 unlike traffics at once" in complaint(tmp_path, *unlike)
    assert "12#1" in complaint(tmp_path, *unlike)
    assert loaded(tmp_path, *unlike, which="#2").workload.mtu == 2048
    assert "has no traffic #3; it has #1 to #2" in complaint(tmp_path, *unlike, which="#3")
    # The sender's own loopback, which a workload does not have: there it is the receiver's.
    assert "unlike" in complaint(tmp_path, traffic(), traffic(A, A))


def test_what_the_counters_say(tmp_path: Path) -> None:
    slow = loaded(tmp_path, traffic(), readings=READINGS.format(pause=12.0))
    assert slow.symptom is Symptom.LOW_THROUGHPUT
    assert loaded(tmp_path, traffic()).symptom is None
    absent = "\n\ntx_vport_rdma_unicast_bytes:  0.0\ntx_prio3_pause_duration:  -1.0\n"
    assert loaded(tmp_path, traffic(), readings=absent).symptom is None


def test_differences_between_the_ends_are_reported(tmp_path: Path) -> None:
    sends = traffic(reqs="s_1_4096,", qp_num=3, server=host(B, recv_batch=4, mr_num=7))
    point = loaded(tmp_path, sends)
    assert (point.workload.wqe_batch, point.workload.mrs_per_qp) == (8, 2)
    reported = " ".join(point.remarks)
    for part in ("batches differ", "memory regions of a process differ", "7 memory regions serve 3", "wait for ever"):
        assert part in reported


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"client": host(A, send_batch=50, send_wq_depth=1)}, "cannot have sent anything here: wqe_batch 50"),
        ({"qp_type": "UD", "reqs": "s_1_4096,"}, "a UD message is one packet"),
        ({"qp_type": "UC", "reqs": "r_1_64,"}, "UC queue pairs cannot READ"),
        ({"reqs": ","}, "request vector is empty"),
        ({"reqs": "x_1_64"}, "request 'x_1_64' is none of the prototype's"),
        ({"reqs": "w_2_64"}, "request 'w_2_64' is none"),
        ({"mtu": 9}, "Traffics.0.mtu"),
        ({"client": {"ip": A}}, "Traffics.0.client.mr_num: Field required"),
    ],
)
def test_what_is_no_point(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    assert message in complaint(tmp_path, traffic(**changed))


SCRIPT = """\
ssh root@192.168.0.2 -n -f "numactl -N 1 -m 1 /tmp/collie_engine --dev=mlx5_0 --mr_num=2 --buf_num=1 --buf_size=4096 \
--send_batch=0 --recv_batch=8 --send_wq_depth=1 --recv_wq_depth=64  --qp_num=2 --mtu=3 --qp_type=4 --request=s_1_1024, \
--receive=1_4096, --server --port={port} --use_cuda=False --tos=105 --share_mr --gpu_id=0 2>/dev/null &"
sleep 1
ssh root@192.168.0.1 -n -f "numactl -N 0 -m 0 /tmp/collie_engine --dev=mlx5_0 --mr_num=2 --buf_num=1 --buf_size=4096 \
--send_batch=8 --recv_batch=0 --send_wq_depth=32 --recv_wq_depth=1  --qp_num=2 --mtu=3 --qp_type=4 --request=s_1_1024, \
--receive=1_4096, --connect=192.168.0.2 --port={port} --use_cuda=True --tos=105 --share_mr --gpu_id=0 \
--run_infinitely 2>/dev/null &"
"""


def test_a_reproduce_script_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "12.sh"
    path.write_text(SCRIPT.format(port=3000) + SCRIPT.format(port=3001) + "sleep 1\n")
    point = load_point(str(path))
    found = point.workload
    assert (found.qp_type, found.opcode, found.messages, found.qps) == (QpType.UD, Opcode.SEND, (1024,), 4)
    assert (found.wqe_batch, found.send_wq_depth, found.recv_wq_depth) == (8, 32, 64)
    assert (found.memory, found.peer_memory, found.numa_node, found.peer_numa_node) == (Memory.GPU, Memory.DRAM, 0, 1)
    assert point.symptom is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/sh\necho hello\n", "neither a result nor a reproduce script"),
        (SCRIPT.format(port=3000).partition("sleep 1\n")[2], "connects to 192.168.0.2 port 3000, where no server"),
        ("{}", "Traffics: Field required"),
        ("{", "Expecting property name"),
        ("ssh 'unclosed", "No closing quotation"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "12.sh"
    path.write_text(text)
    with pytest.raises(ContentError) as error:
        load_point(str(path))
    assert message in str(error.value)
    with pytest.raises(ContentError, match="cannot be read"):
        load_point(str(tmp_path / "missing"))
