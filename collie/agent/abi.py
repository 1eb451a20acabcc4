"""ABI of libibverbs (libibverbs.so.1, IBVERBS_1.1, 64-bit): structures and constants of the verbs in use.

A test compares every size and offset with ``infiniband/verbs.h``.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char, c_int, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, List, Tuple

Members = List[Tuple[str, Any]]


def members(kind: Any, names: str) -> Members:
    """Return consecutive members of one type."""
    return [(name, kind) for name in names.split()]


class Gid(ctypes.Union):
    """``union ibv_gid``, in network byte order."""

    _fields_ = [("raw", c_uint8 * 16), ("words", c_uint64 * 2)]


class GlobalRoute(ctypes.Structure):
    """``struct ibv_global_route``."""

    _fields_ = [("dgid", Gid), ("flow_label", c_uint32), *members(c_uint8, "sgid_index hop_limit traffic_class")]


class AHAttr(ctypes.Structure):
    """``struct ibv_ah_attr``."""

    _fields_ = [
        ("grh", GlobalRoute),
        ("dlid", c_uint16),
        *members(c_uint8, "sl src_path_bits static_rate is_global port_num"),
    ]


class QPCap(ctypes.Structure):
    """``struct ibv_qp_cap``."""

    _fields_ = members(c_uint32, "max_send_wr max_recv_wr max_send_sge max_recv_sge max_inline_data")


class QPInitAttr(ctypes.Structure):
    """``struct ibv_qp_init_attr``."""

    _fields_ = [
        *members(c_void_p, "qp_context send_cq recv_cq srq"),
        ("cap", QPCap),
        ("qp_type", c_uint32),
        ("sq_sig_all", c_int),
    ]


class QPAttr(ctypes.Structure):
    """``struct ibv_qp_attr``."""

    _fields_ = [
        *members(c_uint32, "qp_state cur_qp_state path_mtu path_mig_state"),
        *members(c_uint32, "qkey rq_psn sq_psn dest_qp_num qp_access_flags"),
        ("cap", QPCap),
        *members(AHAttr, "ah_attr alt_ah_attr"),
        *members(c_uint16, "pkey_index alt_pkey_index"),
        *members(c_uint8, "en_sqd_async_notify sq_draining max_rd_atomic max_dest_rd_atomic min_rnr_timer"),
        *members(c_uint8, "port_num timeout retry_cnt rnr_retry alt_port_num alt_timeout"),
        ("rate_limit", c_uint32),
    ]


class SrqAttr(ctypes.Structure):
    """``struct ibv_srq_attr``."""

    _fields_ = members(c_uint32, "max_wr max_sge srq_limit")


class SrqInitAttr(ctypes.Structure):
    """``struct ibv_srq_init_attr``."""

    _fields_ = [("srq_context", c_void_p), ("attr", SrqAttr)]


class DeviceAttr(ctypes.Structure):
    """``struct ibv_device_attr``."""

    _fields_ = [
        ("fw_ver", c_char * 64),
        *members(c_uint64, "node_guid sys_image_guid max_mr_size page_size_cap"),
        *members(c_uint32, "vendor_id vendor_part_id hw_ver"),
        *members(c_int, "max_qp max_qp_wr"),
        ("device_cap_flags", c_uint32),
        *members(c_int, "max_sge max_sge_rd max_cq max_cqe max_mr max_pd max_qp_rd_atom max_ee_rd_atom"),
        *members(c_int, "max_res_rd_atom max_qp_init_rd_atom max_ee_init_rd_atom"),
        ("atomic_cap", c_uint32),
        *members(c_int, "max_ee max_rdd max_mw max_raw_ipv6_qp max_raw_ethy_qp"),
        *members(c_int, "max_mcast_grp max_mcast_qp_attach max_total_mcast_qp_attach"),
        *members(c_int, "max_ah max_fmr max_map_per_fmr max_srq max_srq_wr max_srq_sge"),
        ("max_pkeys", c_uint16),
        *members(c_uint8, "local_ca_ack_delay phys_port_cnt"),
    ]

    @property
    def atomic_caps(self) -> int:
        """``atomic_cap`` under pyverbs' name."""
        return int(self.atomic_cap)


class PortAttr(ctypes.Structure):
    """``struct ibv_port_attr``."""

    _fields_ = [
        *members(c_uint32, "state max_mtu active_mtu"),
        ("gid_tbl_len", c_int),
        *members(c_uint32, "port_cap_flags max_msg_sz bad_pkey_cntr qkey_viol_cntr"),
        *members(c_uint16, "pkey_tbl_len lid sm_lid"),
        *members(c_uint8, "lmc max_vl_num sm_sl subnet_timeout init_type_reply"),
        *members(c_uint8, "active_width active_speed phys_state link_layer flags"),
        ("port_cap_flags2", c_uint16),
    ]


class Qp(ctypes.Structure):
    """First members of ``struct ibv_qp``."""

    _fields_ = members(c_void_p, "context qp_context pd send_cq recv_cq srq") + members(c_uint32, "handle qp_num")


class Mr(ctypes.Structure):
    """``struct ibv_mr``."""

    _fields_ = [*members(c_void_p, "context pd addr"), ("length", c_size_t), *members(c_uint32, "handle lkey rkey")]


class CompChannel(ctypes.Structure):
    """``struct ibv_comp_channel``."""

    _fields_ = [("context", c_void_p), ("fd", c_int), ("refcnt", c_int)]


class Wc(ctypes.Structure):
    """``struct ibv_wc``."""

    _fields_ = [
        ("wr_id", c_uint64),
        *members(c_uint32, "status opcode vendor_err byte_len imm_data qp_num src_qp wc_flags"),
        *members(c_uint16, "pkey_index slid"),
        *members(c_uint8, "sl dlid_path_bits"),
    ]


POLL_CQ = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
REQ_NOTIFY_CQ = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)
POST = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)

# Members of struct ibv_context_ops by position. The data path calls five. The others are void pointers.
OPS: Members = [(f"op{number}", c_void_p) for number in range(32)]
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
    """First members of ``struct ibv_context``."""

    _fields_ = [("device", c_void_p), ("ops", ContextOps), ("cmd_fd", c_int), ("async_fd", c_int)]


class Enums:
    """Constants of the verbs API, under pyverbs' names."""

    IBV_WC_WITH_IMM = 2
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
