"""Fields that some traffic cannot use."""

from __future__ import annotations

import pytest

from collie.workloads.effect import has_effect
from collie.workloads.workload import Opcode, QpType, Workload

_SEND = Workload(opcode=Opcode.SEND)
_DATAGRAMS = _SEND.with_(qp_type=QpType.UD)
_READ = Workload(opcode=Opcode.READ)


@pytest.mark.parametrize(
    ("field", "with_effect", "without"),
    [
        ("retry_cnt", (_SEND, _READ), (_DATAGRAMS,)),
        ("timeout", (_SEND, _READ), (_DATAGRAMS,)),
        ("rnr_retry", (_SEND,), (_READ, _DATAGRAMS)),
        ("min_rnr_timer", (_SEND,), (_READ, _DATAGRAMS)),
        ("max_rd_atomic", (_READ, _SEND.with_(more_opcodes=(Opcode.READ,))), (_SEND, _DATAGRAMS)),
        ("fence", (_READ,), (_SEND,)),
        ("qps", (_SEND, _READ, _DATAGRAMS), ()),
    ],
)
def test_a_field_acts_only_on_traffic_that_can_use_it(
    field: str, with_effect: tuple[Workload, ...], without: tuple[Workload, ...]
) -> None:
    assert all(has_effect(field, workload) for workload in with_effect)
    assert not any(has_effect(field, workload) for workload in without)
