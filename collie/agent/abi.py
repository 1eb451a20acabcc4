"""ABI of libibverbs (libibverbs.so.1, IBVERBS_1.1, 64-bit): structures and constants of the verbs that a run calls.

Names are those of ``infiniband/verbs.h``. A test compares every size and offset with that header.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char, c_int, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, List, Tuple


class Gid(ctypes.Union):
    """``union ibv_gid``, in network byte order."""

    _fields_ = [("raw", c_uint8 * 16), ("words", c_uint64 * 2)]


class GlobalRoute(ctypes.Structure):
    """``struct ibv_global_route``."""

    _fields_ = [
        ("dgid", Gid),
        ("flow_label", c_uint32),
        ("sgid_index", c_uint8),
        ("hop_limit", c_uint8),
        ("traffic_class", c_uint8),
    ]


class AHAttr(ctypes.Structure):
    """``struct ibv_ah_attr``."""

    _fields_ = [
        ("grh", GlobalRoute),
        ("dlid", c_uint16),
        ("sl", c_uint8),
        ("src_path_bits", c_uint8),
        ("static_rate", c_uint8),
        ("is_global", c_uint8),
        ("port_num", c_uint8),
    ]


class QPCap(ctypes.Structure):
    """``struct ibv_qp_cap``."""

    _fields_ = [
        ("max_send_wr", c_uint32),
        ("max_recv_wr", c_uint32),
        ("max_send_sge", c_uint32),
        ("max_recv_sge", c_uint32),
        ("max_inline_data", c_uint32),
    ]


class QPInitAttr(ctypes.Structure):
    """``struct ibv_qp_init_attr``."""

    _fields_ = [
        ("qp_context", c_void_p),
        ("send_cq", c_void_p),
        ("recv_cq", c_void_p),
        ("srq", c_void_p),
        ("cap", QPCap),
        ("qp_type", c_uint32),
        ("sq_sig_all", c_int),
    ]


class QPAttr(ctypes.Structure):
    """``struct ibv_qp_attr``."""

    _fields_ = [
        ("qp_state", c_uint32),
        ("cur_qp_state", c_uint32),
        ("path_mtu", c_uint32),
        ("path_mig_state", c_uint32),
        ("qkey", c_uint32),
        ("rq_psn", c_uint32),
        ("sq_psn", c_uint32),
        ("dest_qp_num", c_uint32),
        ("qp_access_flags", c_uint32),
        ("cap", QPCap),
        ("ah_attr", AHAttr),
        ("alt_ah_attr", AHAttr),
        ("pkey_index", c_uint16),
        ("alt_pkey_index", c_uint16),
        ("en_sqd_async_notify", c_uint8),
        ("sq_draining", c_uint8),
        ("max_rd_atomic", c_uint8),
        ("max_dest_rd_atomic", c_uint8),
        ("min_rnr_timer", c_uint8),
        ("port_num", c_uint8),
        ("timeout", c_uint8),
        ("retry_cnt", c_uint8),
        ("rnr_retry", c_uint8),
        ("alt_port_num", c_uint8),
        ("alt_timeout", c_uint8),
        ("rate_limit", c_uint32),
    ]


class SrqAttr(ctypes.Structure):
    """``struct ibv_srq_attr``."""

    _fields_ = [("max_wr", c_uint32), ("max_sge", c_uint32), ("srq_limit", c_uint32)]


class SrqInitAttr(ctypes.Structure):
    """``struct ibv_srq_init_attr``."""

    _fields_ = [("srq_context", c_void_p), ("attr", SrqAttr)]


class DeviceAttr(ctypes.Structure):
    """``struct ibv_device_attr``."""

    _fields_ = [
        ("fw_ver", c_char * 64),
        ("node_guid", c_uint64),
        ("sys_image_guid", c_uint64),
        ("max_mr_size", c_uint64),
        ("page_size_cap", c_uint64),
        ("vendor_id", c_uint32),
        ("vendor_part_id", c_uint32),
        ("hw_ver", c_uint32),
        ("max_qp", c_int),
        ("max_qp_wr", c_int),
        ("device_cap_flags", c_uint32),
        ("max_sge", c_int),
        ("max_sge_rd", c_int),
        ("max_cq", c_int),
        ("max_cqe", c_int),
        ("max_mr", c_int),
        ("max_pd", c_int),
        ("max_qp_rd_atom", c_int),
        ("max_ee_rd_atom", c_int),
        ("max_res_rd_atom", c_int),
        ("max_qp_init_rd_atom", c_int),
        ("max_ee_init_rd_atom", c_int),
        ("atomic_cap", c_uint32),
        ("max_ee", c_int),
        ("max_rdd", c_int),
        ("max_mw", c_int),
        ("max_raw_ipv6_qp", c_int),
        ("max_raw_ethy_qp", c_int),
        ("max_mcast_grp", c_int),
        ("max_mcast_qp_attach", c_int),
        ("max_total_mcast_qp_attach", c_int),
        ("max_ah", c_int),
        ("max_fmr", c_int),
        ("max_map_per_fmr", c_int),
        ("max_srq", c_int),
        ("max_srq_wr", c_int),
        ("max_srq_sge", c_int),
        ("max_pkeys", c_uint16),
        ("local_ca_ack_delay", c_uint8),
        ("phys_port_cnt", c_uint8),
    ]

    @property
    def atomic_caps(self) -> int:
        """``atomic_cap`` under pyverbs' name."""
        return int(self.atomic_cap)


class PortAttr(ctypes.Structure):
    """``struct ibv_port_attr``."""

    _fields_ = [
        ("state", c_uint32),
        ("max_mtu", c_uint32),
        ("active_mtu", c_uint32),
        ("gid_tbl_len", c_int),
        ("port_cap_flags", c_uint32),
        ("max_msg_sz", c_uint32),
        ("bad_pkey_cntr", c_uint32),
        ("qkey_viol_cntr", c_uint32),
        ("pkey_tbl_len", c_uint16),
        ("lid", c_uint16),
        ("sm_lid", c_uint16),
        ("lmc", c_uint8),
        ("max_vl_num", c_uint8),
        ("sm_sl", c_uint8),
        ("subnet_timeout", c_uint8),
        ("init_type_reply", c_uint8),
        ("active_width", c_uint8),
        ("active_speed", c_uint8),
        ("phys_state", c_uint8),
        ("link_layer", c_uint8),
        ("flags", c_uint8),
        ("port_cap_flags2", c_uint16),
    ]


class Qp(ctypes.Structure):
    """Head of ``struct ibv_qp``."""

    _fields_ = [
        ("context", c_void_p),
        ("qp_context", c_void_p),
        ("pd", c_void_p),
        ("send_cq", c_void_p),
        ("recv_cq", c_void_p),
        ("srq", c_void_p),
        ("handle", c_uint32),
        ("qp_num", c_uint32),
    ]


class Mr(ctypes.Structure):
    """``struct ibv_mr``."""

    _fields_ = [
        ("context", c_void_p),
        ("pd", c_void_p),
        ("addr", c_void_p),
        ("length", c_size_t),
        ("handle", c_uint32),
        ("lkey", c_uint32),
        ("rkey", c_uint32),
    ]


class CompChannel(ctypes.Structure):
    """``struct ibv_comp_channel``."""

    _fields_ = [("context", c_void_p), ("fd", c_int), ("refcnt", c_int)]


class RecvWR(ctypes.Structure):
    """``struct ibv_recv_wr``."""

    _fields_ = [("wr_id", c_uint64), ("next", c_void_p), ("sg_list", c_void_p), ("num_sge", c_int)]


class Rdma(ctypes.Structure):
    """Member ``rdma`` of the union ``wr``."""

    _fields_ = [("remote_addr", c_uint64), ("rkey", c_uint32)]


class Atomic(ctypes.Structure):
    """Member ``atomic`` of the union ``wr``."""

    _fields_ = [("remote_addr", c_uint64), ("compare_add", c_uint64), ("swap", c_uint64), ("rkey", c_uint32)]


class Ud(ctypes.Structure):
    """Member ``ud`` of the union ``wr``."""

    _fields_ = [("ah", c_void_p), ("remote_qpn", c_uint32), ("remote_qkey", c_uint32)]


class Remote(ctypes.Union):
    """The union ``wr`` of ``struct ibv_send_wr``."""

    _fields_ = [("rdma", Rdma), ("atomic", Atomic), ("ud", Ud)]


class SendWR(ctypes.Structure):
    """``struct ibv_send_wr``. No workload uses its last members."""

    _fields_ = [
        ("wr_id", c_uint64),
        ("next", c_void_p),
        ("sg_list", c_void_p),
        ("num_sge", c_int),
        ("opcode", c_uint32),
        ("send_flags", c_uint32),
        ("imm_data", c_uint32),
        ("wr", Remote),
        ("unused", c_uint64 * 7),
    ]


class Wc(ctypes.Structure):
    """``struct ibv_wc``."""

    _fields_ = [
        ("wr_id", c_uint64),
        ("status", c_uint32),
        ("opcode", c_uint32),
        ("vendor_err", c_uint32),
        ("byte_len", c_uint32),
        ("imm_data", c_uint32),
        ("qp_num", c_uint32),
        ("src_qp", c_uint32),
        ("wc_flags", c_uint32),
        ("pkey_index", c_uint16),
        ("slid", c_uint16),
        ("sl", c_uint8),
        ("dlid_path_bits", c_uint8),
    ]


POLL_CQ = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
REQ_NOTIFY_CQ = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)
POST = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)

# Members of struct ibv_context_ops by position. The data path calls five, the others are void pointers.
OPS: List[Tuple[str, Any]] = [(f"op{number}", c_void_p) for number in range(32)]
for _position, _name, _type in (
    (11, "poll_cq", POLL_CQ),
    (12, "req_notify_cq", REQ_NOTIFY_CQ),
    (20, "post_srq_recv", POST),
    (25, "post_send", POST),
    (26, "post_recv", POST),
):
    OPS[_position] = (_name, _type)


class ContextOps(ctypes.Structure):
    """``struct ibv_context_ops``."""

    _fields_ = OPS


class Context(ctypes.Structure):
    """Head of ``struct ibv_context``."""

    _fields_ = [("device", c_void_p), ("ops", ContextOps), ("cmd_fd", c_int), ("async_fd", c_int)]


class Enums:
    """Constants of the verbs API, under pyverbs' names."""

    IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ = range(5)
    IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD = 5, 6
    IBV_SEND_FENCE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_SEND_INLINE = 1, 2, 4, 8
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_ATOMIC = 1, 2, 4, 8
    IBV_ATOMIC_NONE, IBV_ATOMIC_HCA, IBV_ATOMIC_GLOB = range(3)
    IBV_DEVICE_XRC = 1 << 20
    IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD = 2, 3, 4
    IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR = range(7)
    IBV_QP_STATE = 1 << 0
    IBV_QP_ACCESS_FLAGS = 1 << 3
    IBV_QP_PKEY_INDEX = 1 << 4
    IBV_QP_PORT = 1 << 5
    IBV_QP_QKEY = 1 << 6
    IBV_QP_AV = 1 << 7
    IBV_QP_PATH_MTU = 1 << 8
    IBV_QP_TIMEOUT = 1 << 9
    IBV_QP_RETRY_CNT = 1 << 10
    IBV_QP_RNR_RETRY = 1 << 11
    IBV_QP_RQ_PSN = 1 << 12
    IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13
    IBV_QP_MIN_RNR_TIMER = 1 << 15
    IBV_QP_SQ_PSN = 1 << 16
    IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17
    IBV_QP_DEST_QPN = 1 << 20
