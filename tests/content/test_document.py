"""YAML with lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.content.document import parse_document, read_document
from collie.errors import ContentError


def complaint(text: str) -> str:
    with pytest.raises(ContentError) as caught:
        parse_document(text, "x.yaml")
    return str(caught.value)


def test_every_key_and_item_knows_its_line() -> None:
    document = parse_document("a:\n  b: 1\n  c:\n    - 2\n    - {d: 3}\n", "x.yaml")

    assert document.data == {"a": {"b": 1, "c": [2, {"d": 3}]}}
    assert document.line("a") == 1
    assert document.line("a", "b") == 2
    assert document.line("a", "c") == 3
    assert document.line("a", "c", 1, "d") == 5


def test_a_location_that_does_not_exist_has_the_line_of_its_innermost_part_that_does() -> None:
    document = parse_document("a:\n  b: 1\n", "x.yaml")

    assert document.line("a", "z", 3) == 1
    assert document.line("z") == 0
    assert document.part("a", "z", 3) is None
    assert document.part("a", "b") == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-12", -12),
        ("0xFFFFF0", 0xFFFFF0),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("null", None),
        ("~", None),
        ("", None),
        ("010", 10),
        ("on", "on"),
        ("yes", "yes"),
        ("12:30", "12:30"),
        ("2022-04-04", "2022-04-04"),
        ("4KiB", "4KiB"),
        ('"1"', "1"),
        ("'true'", "true"),
        ("1" * 30, "1" * 30),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("=", "="),
    ],
)
def test_scalars_are_what_they_look_like(text: str, value: object) -> None:
    read = parse_document(f"key: {text}\n", "x.yaml").data["key"]

    assert read == value
    assert type(read) is type(value)


def test_keys_are_text_always() -> None:
    assert parse_document("1: a\ntrue: b\n<<: c\n", "x.yaml").data == {"1": "a", "true": "b", "<<": "c"}


def test_a_key_that_stands_twice_names_both_lines() -> None:
    assert complaint("a: 1\nb:\n  c: 1\n  c: 2\n") == "x.yaml:4: key 'c' stands twice, first on line 3; keep one"


def test_an_empty_file_says_so() -> None:
    assert complaint("# nothing\n") == "x.yaml: the file is empty; it should hold keys and values"


def test_deep_nesting_is_refused_before_it_overflows() -> None:
    assert "nested more than" in complaint("a: " + "[" * 20_000)


def test_a_character_that_does_not_exist_is_a_complaint() -> None:
    assert "no valid YAML" in complaint('a: "\\UFFFFFFFF"')
    assert "no valid YAML" in complaint("a: \x00")


def test_a_recursive_alias_is_refused() -> None:
    assert "is an alias" in complaint("a: &a [*a]")


def test_a_file_that_is_missing_or_no_text_is_a_complaint(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"a: \xff\xfe")

    with pytest.raises(ContentError, match=r"missing\.yaml: cannot be read: no such file or directory"):
        read_document(tmp_path / "missing.yaml")
    with pytest.raises(ContentError, match=r"binary\.yaml: byte 3 is no UTF-8"):
        read_document(tmp_path / "binary.yaml")
    with pytest.raises(ContentError, match="cannot be read"):
        read_document(tmp_path)


def test_a_byte_order_mark_is_no_character_of_the_first_key(tmp_path: Path) -> None:
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")

    assert read_document(tmp_path / "bom.yaml").data == {"a": 1}
