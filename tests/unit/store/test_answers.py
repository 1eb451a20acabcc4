"""The file with the answer of a gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.errors import StoreError, StoreUnwritable
from collie.store.answers import read_answer, write_answer
from tests.support.gate_answers import ANSWER


def test_an_answer_comes_back_as_it_was(tmp_path: Path) -> None:
    write_answer(tmp_path / "gate.json", ANSWER)
    assert read_answer(tmp_path / "gate.json") == ANSWER
    assert read_answer(tmp_path / "none.json") is None


@pytest.mark.parametrize("text", ["", "[]", '{"schema_version": 1}', '{"schema_version": 99}', "\x00"])
def test_a_damaged_answer_is_named_with_the_remedy(tmp_path: Path, text: str) -> None:
    path = tmp_path / "gate.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=rf"gate\.json cannot be read: .*collie gate --resume {tmp_path} writes it"):
        read_answer(path)


def test_an_answer_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnwritable, match=r"gate\.json cannot be written"):
        write_answer(tmp_path / "file" / "gate.json", ANSWER)
