"""The good files that odd things replace."""

from __future__ import annotations

import json
from collections.abc import Mapping

_HOST = {"address": "127.0.0.1", "port": 9, "user": "nobody", "device": "rxe0"}
_HOSTS = {
    "version": 1,
    "hosts": {"a": {**_HOST, "data_address": "192.0.2.1"}, "b": {**_HOST, "port": 10, "data_address": "192.0.2.2"}},
    "pairs": [["a", "b"]],
}
_END = {"ip": "a", "numa_node": 0, "use_gpu": False, "mr_num": 1, "buf_num": 1, "buf_size": 4096}
_DEEP = {"send_wq_depth": 8, "recv_wq_depth": 8, "send_batch": 1, "recv_batch": 1}
_TRAFFIC = {"qp_num": 1, "process_num": 1, "mtu": 3, "qp_type": "RC", "reqs": "w_1_64,"}
_POINT = {"Traffics": [{**_TRAFFIC, "client": {**_END, **_DEEP}, "server": {**_END, **_DEEP, "ip": "b"}}]}
_LAB = {
    "release": "trixie",
    "image": "none",
    "accelerator": "tcg",
    "memory_mib": 512,
    "vcpus": 1,
    "sockets": "none",
    "machines": [{"index": 0, "ssh_port": 9}, {"index": 1, "ssh_port": 9}],
}


def _shipped(name: str) -> str:
    from collie.content.locate import content_roots

    return next((root / name).read_text() for root in content_roots() if (root / name).is_file())


_WORKLOAD = "qp_type: RC\nopcode: WRITE\nmessages: [4KiB]\nqps: 8\n"
_SUBSYSTEM = "based_on: F\nname: mine\ntitle: Mine\n"
FILES: Mapping[str, str] = {
    "hosts.yaml": json.dumps(_HOSTS),
    "hosts.json": json.dumps(_HOSTS),
    "known": "",
    "key": "",
    "workload.yaml": _WORKLOAD,
    "application.yaml": _shipped("workloads/applications/rpc-library.yaml"),
    "space.yaml": _shipped("workloads/spaces/nsdi22.yaml"),
    "recipe.yaml": _shipped("search/recipes/guided.yaml"),
    "base.yaml": _SUBSYSTEM,
    "subsystem.yaml": _SUBSYSTEM.replace(": F", ": base.yaml"),
    "point": json.dumps(_POINT) + "\n\nrx_pause_duration: 5000\n",
    "overlay/workloads/spaces/mine.yaml": _shipped("workloads/spaces/nsdi22.yaml"),
    "overlay/workloads/anomalies/mine-01.yaml": _shipped("workloads/anomalies/nsdi22-01.yaml"),
    "overlay/workloads/applications/mine.yaml": _shipped("workloads/applications/rpc-library.yaml"),
    "overlay/search/recipes/mine.yaml": _shipped("search/recipes/guided.yaml"),
    "overlay/subsystems/mine.yaml": _SUBSYSTEM,
    "overlay/counters/mine/catalog.yaml": _shipped("counters/rxe/catalog.yaml").replace(
        "driver: rxe", "driver: mine", 1
    ),
    "home/.ssh/config": "Host *\n",
    "home/.ssh/known_hosts": "",
    "state/collie/lab/lab.json": json.dumps(_LAB),
    "state/collie/lab/hosts.yaml": json.dumps(_HOSTS),
    "state/collie/lab/lock": "",
}
MADE = (
    "search --subsystem F --budget 30runs --seed 1 --campaign campaign",
    "search --subsystem F --budget 30runs --seed 2 --campaign other",
    "export nsdi22-08 -o bundle.pyz",
)
