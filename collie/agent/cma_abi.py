"""ABI of librdmacm (librdmacm.so.1, RDMACM_1.2, 64-bit): structures and constants of the calls that connect.

A test compares every offset with ``rdma/rdma_cma.h``.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_uint8, c_uint32, c_void_p

from .abi import members


class EventChannel(ctypes.Structure):
    """``struct rdma_event_channel``."""

    _fields_ = [("fd", c_int)]


class ConnParam(ctypes.Structure):
    """``struct rdma_conn_param``."""

    _fields_ = [
        ("private_data", c_void_p),
        *members(c_uint8, "private_data_len responder_resources initiator_depth flow_control"),
        *members(c_uint8, "retry_count rnr_retry_count srq"),
        ("qp_num", c_uint32),
    ]


class Param(ctypes.Union):
    """The union ``param``, without the member for datagrams."""

    _fields_ = [("conn", ConnParam)]


class Event(ctypes.Structure):
    """First members of ``struct rdma_cm_event``."""

    _fields_ = [*members(c_void_p, "id listen_id"), ("event", c_uint32), ("status", c_int), ("param", Param)]


class Enums:
    """Constants of librdmacm."""

    RDMA_PS_TCP = 0x0106
    RDMA_CM_EVENT_ADDR_RESOLVED = 0
    RDMA_CM_EVENT_ROUTE_RESOLVED = 2
    RDMA_CM_EVENT_CONNECT_REQUEST = 4
    RDMA_CM_EVENT_CONNECT_RESPONSE = 5
    RDMA_CM_EVENT_ESTABLISHED = 9
