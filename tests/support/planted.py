"""Anomalies that tests plant in the space of the paper."""

from __future__ import annotations

from collie.content.spaces import load_space
from collie.ports import CampaignHeader
from collie.workloads.feature import Condition, Mfs, Op

SPACE = load_space("nsdi22")
LOOPBACK = Mfs((Condition("loopback", Op.EQUAL, True),))
MANY_SGES = Mfs((Condition("sge_count", Op.AT_LEAST, 8), Condition("loopback", Op.EQUAL, False)))
HEADER = CampaignHeader("test", {}, "nsdi22", "test", {}, 1, "2026-01-01T00:00:00Z")
