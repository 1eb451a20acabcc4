"""Workloads that users write."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from collie.content.spaces import load_space
from collie.content.workload import load_workload
from collie.errors import ContentError
from collie.workloads.workload import Opcode, QpType, Workload, render

SPACE = load_space("nsdi22")


def write(folder: Path, text: str) -> Path:
    path = folder / "workload.yaml"
    path.write_text(text)
    return path


def complaints(path: Path) -> list[tuple[int, str]]:
    with pytest.raises(ContentError) as caught:
        load_workload(path, SPACE)
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_fields_left_out_are_plain(tmp_path: Path) -> None:
    path = write(tmp_path, "opcode: SEND\nmessages: [1KiB, 64]\nqp_type: UD\n")

    assert load_workload(path) == Workload(opcode=Opcode.SEND, messages=(1024, 64), qp_type=QpType.UD)
    assert load_workload(path, SPACE) == SPACE.base.with_(opcode=Opcode.SEND, messages=(1024, 64), qp_type=QpType.UD)


def test_a_space_checks_ranges_limits_and_what_varies(tmp_path: Path) -> None:
    assert complaints(write(tmp_path, "qps: 8\nsge_count: 32\n")) == [(2, "sge_count 32 is out of range; 1 to 16")]
    does_not_vary = "space nsdi22 and does not vary; --space names one where it does"
    assert complaints(write(tmp_path, "fence: true\n")) == [
        (1, f"fence is false in {does_not_vary}: soft-roce, soft-roce-load, soft-roce-verbs")
    ]
    assert complaints(write(tmp_path, "huge_pages: true\n")) == [(1, f"huge_pages is false in {does_not_vary}")]
    assert complaints(write(tmp_path, "qps: 1000\nmrs_per_qp: 1000\n")) == [
        (2, "1000 qps x 1000 mrs_per_qp = 1000000 memory regions; at most 200000")
    ]


def test_what_a_narrowed_space_left_out_is_not_sought_in_the_space_itself(tmp_path: Path) -> None:
    reads = SPACE.narrowed({"opcode": Opcode.READ}, {})
    with pytest.raises(ContentError, match=r"does not vary; --fix, or what the testbed cannot run, leaves it no other"):
        load_workload(write(tmp_path, "opcode: WRITE\n"), reads)


@given(st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_what_a_program_writes_reads_back(tmp_path_factory: pytest.TempPathFactory, rng: Random) -> None:
    point = SPACE.sample(rng)
    text = "".join(
        f"{name}: {str(value).lower() if isinstance(value, bool) else value}\n" for name, value in render(point).items()
    )

    assert load_workload(write(tmp_path_factory.mktemp("w"), text), SPACE) == point
