"""Verbs objects of one run, created in order of dependence and destroyed in reverse.

Rules:

1. Every verb runs inside ``step``, so an error names the verb and its errno.
2. Requests above the device's limits are refused before any verb is called, because drivers leak when a creation fails.
3. Queue pairs are moved to ERR and polled before destruction (``quiesce``). Otherwise rdma_rxe drains outstanding work
   in the kernel, without a way to interrupt it.
4. Completions carry the device's time where an end times rounds and the device has it. A device that refuses such
   completion queues, or the first queue pair on them, gets plain ones. mlx5 refuses the queue pair where it can stamp
   the time of day alone.
"""

from __future__ import annotations

import errno
import sys
import time
from functools import partial
from typing import Any, Callable, Dict, List, Optional

from . import cma_abi, memory
from .faults import AgentFault, bad_request
from .objects import Buffers, CompletionQueue, Limits, closed_on_failure, remote_access, step
from .pattern import GRH_BYTES, ReceivePlan, group
from .rdma_cm import Address, Agreed, ConnectionManager, Half
from .verbs import Verbs
from .workload import MTU_CODES, Workload

UD_QKEY = 0x11111111
# Echoes that a queue pair can wait for, or send, at a time (``native/traffic.c``).
ECHOES = 32


class End:
    """One end of a flow.

    Attributes:
        first_queue: number of its first queue.
        posted: shape of the receives that are posted for each queue pair at the responder. Both ends keep it, so that
            both know alone which queue pairs must be reset.
        echoes_posted: whether the requester's receives for echoes are posted, for each queue pair.
        restarts: what brings each queue pair from INIT to RTS.
    """

    def __init__(self, key: str, role: str, qps: int, workload: Workload, flow_qps: Optional[int] = None) -> None:
        """Describe ``qps`` of the flow's ``flow_qps`` queue pairs."""
        self.key, self.workload = key, workload
        self.flow_qps = qps if flow_qps is None else flow_qps
        self.requester = role == "requester"
        self.qps = qps
        self.pairs: List[Any] = []
        self.buffers: Optional[Buffers] = None
        self.address_handle: Any = None
        self.address_path = (workload.traffic_class, workload.hop_limit)
        self.srq: Any = None
        self.listener = 0
        self.peer: Dict[str, Any] = {}
        self.first_queue = 0
        self.posted: List[Optional[ReceivePlan]] = [None] * qps
        self.echoes_posted = [False] * qps
        self.restarts: Dict[int, Callable[[], None]] = {}

    @property
    def queues(self) -> int:
        """Number of its send or receive queues."""
        return 1 if self.workload.srq and not self.requester else self.qps

    @property
    def memory(self) -> Buffers:
        """Its regions, once it is created."""
        assert self.buffers is not None, "an end has buffers once it is created"
        return self.buffers

    @property
    def place(self) -> Dict[str, int]:
        """Address of the payload in the first MR, and distance to the payload in the next MR."""
        return {"base": self.memory.base + self.memory.header, "stride": self.memory.stride}


def _owns_receives(end: End) -> bool:
    return not end.requester and end.srq is None


def _echo_entries(end: End) -> int:
    """Return the entries for echoes in a queue of one of its queue pairs, whichever phase uses them."""
    return 0 if end.workload.reliable else ECHOES


def _entries(end: End) -> int:
    """Return how many completions one of its queue pairs can have at a time."""
    if end.requester:
        return end.workload.send_wq_depth + _echo_entries(end)
    return (end.workload.recv_wq_depth if _owns_receives(end) else 1) + _echo_entries(end)


def _conn_param(workload: Workload, qp_num: int) -> cma_abi.ConnParam:
    return cma_abi.ConnParam(
        responder_resources=workload.max_dest_rd_atomic,
        initiator_depth=workload.max_rd_atomic,
        retry_count=workload.retry_cnt,
        rnr_retry_count=workload.rnr_retry,
        srq=workload.srq,
        qp_num=qp_num,
    )


class Resources:
    """All objects of a run on one device."""

    def __init__(
        self, v: Verbs, device: str, port: int, gid_index: int, gid: str, netdev: Optional[str] = None
    ) -> None:
        self.v = v
        self.port, self.gid_index, self.gid = port, gid_index, gid
        self.ends: List[End] = []
        self.cqs: List[CompletionQueue] = []
        self._netdev = netdev
        self._cm: Optional[ConnectionManager] = None
        with step("open_device"):
            self.context = v.Context(name=device)
            self.limits = Limits(v, device, self.context.query_device())
            port_attributes = self.context.query_port(port)
            self.lid: int = port_attributes.lid
            self.active_mtu = port_attributes.active_mtu
        with step("alloc_pd"):
            self.pd = v.PD(self.context)

    def create(self, ends: List[End], processes: int = 1) -> None:
        """Create the objects of ``ends``, with queue pairs in INIT. ``processes`` engines do this at the same time."""
        for end in ends:
            self.limits.check(end.workload)
            if MTU_CODES[end.workload.mtu] > self.active_mtu:
                raise AgentFault("unsupported", "limits", f"mtu {end.workload.mtu} is above the port's active MTU")
        self._check_totals(ends)
        if any(end.workload.by_rdma_cm for end in ends):
            if self._netdev is None:
                message = f"GID {self.gid} belongs to no network device, and RDMA-CM needs its address"
                raise AgentFault("unsupported", "rdma_cm", message)
            self._cm = ConnectionManager(Address(self.gid, self._netdev))
        self.ends = ends
        queues = 0
        for end in ends:
            workload = end.workload
            end.first_queue, queues = queues, queues + end.queues
            header = GRH_BYTES if workload.qp_type == "UD" and not end.requester else 0
            node = workload.numa_node if end.requester else workload.peer_numa_node
            memory.run_on(node)
            end.buffers = Buffers(self.v, self.pd, workload, end.qps, header, node, processes)
            if workload.srq and not end.requester:
                with step("create_srq"):
                    attributes = self.v.SrqAttr(max_wr=workload.recv_wq_depth, max_sge=workload.sge_count)
                    end.srq = self.v.SRQ(self.pd, self.v.SrqInitAttr(attributes))
        self._create_pairs()

    def check_room(self, mrs: int, qps: int) -> None:
        """Raise ``unsupported`` if the device has no room for so many more regions and queue pairs."""
        self._check_totals(self.ends, mrs, qps)

    def _check_totals(self, ends: List[End], mrs: int = 0, qps: int = 0) -> None:
        self.limits.check_totals(
            qps + sum(end.flow_qps for end in ends), mrs + sum(end.flow_qps * end.workload.mrs_per_qp for end in ends)
        )

    def _create_pairs(self) -> None:
        clock = self.v.clock(self.context) if any(end.requester for end in self.ends) else None
        if clock is not None:
            try:
                self._create_pairs_with(clock)
                return
            except AgentFault as fault:
                if any(end.pairs for end in self.ends):
                    raise
                sys.stderr.write(f"completions have no time stamps: {fault.step}: {fault.message}\n")
            with step("destroy_cq"):
                for cq in self.cqs:
                    cq.close()
            self.cqs = []
        self._create_pairs_with(None)

    def _create_pairs_with(self, clock: Any) -> None:
        ends = [end for end in self.ends for _ in range(end.qps)]
        # Unsignalled requests complete, too, when their queue pair fails, so a CQ must hold all of them.
        needs = [_entries(end) for end in ends]
        reserve = sum(end.workload.recv_wq_depth for end in self.ends if end.srq is not None)
        owner = {}
        for indices in group(needs, self.limits.max_cqe, reserve):
            wanted = sum(needs[index] for index in indices) + reserve
            cq = CompletionQueue(self.v, self.context, min(max(wanted, 16), self.limits.max_cqe), clock)
            self.cqs.append(cq)
            owner.update(dict.fromkeys(indices, cq.cq))
        for index, end in enumerate(ends):
            end.pairs.append(self._create_pair(end, owner[index]))

    def _create_pair(self, end: End, cq: Any) -> Any:
        v, workload = self.v, end.workload
        receives = _owns_receives(end)
        asked = {
            "max_send_wr": workload.send_wq_depth if end.requester else max(1, _echo_entries(end)),
            "max_recv_wr": workload.recv_wq_depth if receives else max(1, _echo_entries(end)) if end.requester else 1,
            "max_send_sge": workload.sge_count if end.requester else 1,
            "max_recv_sge": workload.sge_count if receives else 1,
            "max_inline_data": workload.max_inline_data if end.requester else 0,
        }
        cap = v.QPCap(**asked)
        qp_type = getattr(v.e, f"IBV_QPT_{workload.qp_type}")
        attributes = v.QPInitAttr(
            qp_type=qp_type, scq=cq, rcq=cq, srq=end.srq, cap=cap, sq_sig_all=1 if workload.sq_sig_all else 0
        )
        try:
            with step("create_qp"):
                pair = v.QP(self.pd, attributes)
        except AgentFault as fault:
            if fault.errno != errno.EINVAL:
                raise
            # Devices do not report the limits of inline data and of long lists of SGEs.
            capabilities = ", ".join(f"{name} {value}" for name, value in asked.items())
            message = f"{fault.message}: the device refuses a queue pair with {capabilities}"
            raise AgentFault("unsupported", fault.step, message, fault.errno) from fault
        with closed_on_failure(pair), step("modify_qp INIT"):
            pair.to_init(self._attributes(workload))
        return pair

    def pair_to_itself(self, workload: Workload, cq: Any) -> End:
        """Create a queue pair as requesters have them, and bring it to RTS towards itself."""
        end = End("", "requester", 1, workload)
        pair = self._create_pair(end, cq)
        end.pairs.append(pair)
        path = self._path(workload, self.gid, self.lid)
        end.restarts[0] = partial(self._bring_up, pair, workload, path, pair.qp_num, workload.sq_psn)
        with closed_on_failure(pair):
            end.restarts[0]()
        return end

    def address_handle(self, workload: Workload, gid: str, lid: int) -> Any:
        """Create an address handle, with traffic class and hop limit of ``workload``."""
        with step("create_ah"):
            return self.v.AH(self.pd, attr=self._path(workload, gid, lid))

    def _attributes(self, workload: Workload) -> Any:
        v = self.v
        attributes = v.QPAttr(port_num=self.port)
        attributes.qp_access_flags = remote_access(v, workload)
        attributes.pkey_index = 0
        attributes.qkey = UD_QKEY
        attributes.sq_psn = workload.sq_psn
        return attributes

    def endpoint(self, end: End) -> Dict[str, Any]:
        """Describe an end for its peer."""
        described: Dict[str, Any] = {
            "gid": self.gid,
            "lid": self.lid,
            "qps": [[pair.qp_num, end.workload.sq_psn] for pair in end.pairs],
        }
        if not end.requester and end.workload.qp_type != "UD":
            described["buffers"] = end.memory.describe()
        if not end.requester and end.workload.by_rdma_cm and self._cm:
            end.listener, described["cm_port"] = self._cm.listen()
        return described

    def connect(self, end: End, peer: Dict[str, Any]) -> None:
        """Bring the queue pairs of ``end`` to RTS, or leave them to ``connect_by_rdma_cm``."""
        if len(peer["qps"]) != end.qps:
            raise bad_request(f"connect: {end.key} has {end.qps} queue pairs, its peer {len(peer['qps'])}")
        end.peer = peer
        workload = end.workload
        if self._cm is not None and workload.by_rdma_cm:
            self._arrange(self._cm, end)
            return
        path = self._path(workload, peer["gid"], peer["lid"])
        if workload.qp_type == "UD":
            self.address(end, workload)
        for index, pair in enumerate(end.pairs):
            number, psn = peer["qps"][index]
            end.restarts[index] = partial(self._bring_up, pair, workload, path, number, psn)
            end.restarts[index]()

    def address(self, end: End, workload: Workload) -> None:
        """Make the address handle of a UD end, with traffic class and hop limit of ``workload``."""
        if end.address_handle is not None:
            with step("destroy_ah"):
                end.address_handle.close()
            end.address_handle = None
        end.address_handle = self.address_handle(workload, end.peer["gid"], end.peer["lid"])
        end.address_path = (workload.traffic_class, workload.hop_limit)

    def restart(self, end: End, index: int) -> None:
        """Take a queue pair through RESET to RTS, which discards its posted receives. Its peer must do the same."""
        pair = end.pairs[index]
        with step("modify_qp RESET"):
            pair.modify(self.v.QPAttr(qp_state=self.v.e.IBV_QPS_RESET), self.v.e.IBV_QP_STATE)
        with step("modify_qp INIT"):
            pair.to_init(self._attributes(end.workload))
        end.echoes_posted[index] = False
        end.restarts[index]()

    def connect_by_rdma_cm(self, seconds: float) -> None:
        """Connect the queue pairs that ``connect`` left unconnected."""
        if self._cm is not None:
            self._cm.connect_all(seconds)

    def _bring_up(self, pair: Any, workload: Workload, path: Any, number: int, psn: int) -> None:
        """Bring a queue pair from INIT to RTS, with ``number`` and ``psn`` of the peer."""
        attributes = self._attributes(workload)
        attributes.ah_attr = path
        attributes.path_mtu = MTU_CODES[workload.mtu]
        attributes.dest_qp_num = number
        attributes.rq_psn = psn
        for name in ("max_rd_atomic", "max_dest_rd_atomic", "timeout", "retry_cnt", "rnr_retry", "min_rnr_timer"):
            setattr(attributes, name, getattr(workload, name))
        with step("modify_qp RTR"):
            pair.to_rtr(attributes)
        with step("modify_qp RTS"):
            pair.to_rts(attributes)

    def _arrange(self, cm: ConnectionManager, end: End) -> None:
        if end.requester and "cm_port" not in end.peer:
            raise bad_request(f"connect: the endpoint of the peer of {end.key} has no cm_port")
        for index, pair in enumerate(end.pairs):
            number, psn = end.peer["qps"][index]
            bring_up = partial(self._bring_up_agreed, end, index, psn)
            half = Half(_conn_param(end.workload, pair.qp_num), bring_up)
            if end.requester:
                cm.dial(end.peer["gid"], end.peer["cm_port"], half)
            else:
                cm.expect(end.listener, number, half)

    def _bring_up_agreed(self, end: End, index: int, psn: int, agreed: Agreed) -> None:
        """Bring a queue pair to RTS on the agreed path, now and after each RESET."""
        end.restarts[index] = partial(self._follow, end.pairs[index], end.workload, psn, agreed)
        end.restarts[index]()

    def _follow(self, pair: Any, workload: Workload, psn: int, agreed: Agreed) -> None:
        """Bring a queue pair to RTS on the agreed path. INIT is repeated to set the partition."""
        attributes = self._attributes(workload)
        attributes.pkey_index = agreed.pkey_index
        with step("modify_qp INIT"):
            pair.to_init(attributes)
        path = self._path(workload, agreed.gid, agreed.lid, agreed.sl)
        self._bring_up(pair, workload, path, agreed.qp_num, psn)

    def _path(self, workload: Workload, gid: str, lid: int, sl: int = 0) -> Any:
        route = self.v.GlobalRoute(
            dgid=self.v.GID(gid),
            sgid_index=self.gid_index,
            hop_limit=workload.hop_limit,
            traffic_class=workload.traffic_class,
        )
        return self.v.AHAttr(gr=route, is_global=1, port_num=self.port, dlid=lid, sl=sl)

    def fail(self, pair: Any) -> None:
        """Move a queue pair to ERR, so that whatever is outstanding completes."""
        with step("modify_qp ERR"):
            pair.modify(self.v.QPAttr(qp_state=self.v.e.IBV_QPS_ERR), self.v.e.IBV_QP_STATE)

    def quiesce(self, seconds: float) -> int:
        """Move every queue pair to ERR and poll until no completion follows. Return the number of completions."""
        for end in self.ends:
            for pair in end.pairs:
                self.fail(pair)
        flushed, quiet = 0, 0
        deadline = time.monotonic() + seconds
        while quiet < 3 and time.monotonic() < deadline:
            found = sum(cq.cq.poll(64)[0] for cq in self.cqs)
            flushed += found
            quiet = 0 if found else quiet + 1
            if not found:
                time.sleep(0.002)
        return flushed

    def destroy(self) -> None:
        """Destroy everything, even after an incomplete creation."""
        if self._cm is not None:
            self._cm.close()
            self._cm = None
        with step("destroy_qp"):
            for end in self.ends:
                for pair in end.pairs:
                    pair.close()
                end.pairs = []
        with step("destroy"):
            for end in self.ends:
                if end.address_handle is not None:
                    end.address_handle.close()
                if end.buffers is not None:
                    end.buffers.close()
                if end.srq is not None:
                    end.srq.close()
            for cq in self.cqs:
                cq.close()
            self.pd.close()
            self.context.close()
