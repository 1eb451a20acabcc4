"""Collie uses of paramiko only the names that paramiko promises to keep."""

from __future__ import annotations

import ast
from pathlib import Path

import paramiko
import pytest

import collie.ssh

MODULES = sorted(Path(collie.ssh.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_no_private_attribute_of_another_object_is_used(module: Path) -> None:
    used = [
        f"{module.name}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and ast.unparse(node.value) not in ("self", "os")
    ]
    assert used == []


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_no_private_name_of_paramiko_is_overridden_or_inherited(module: Path) -> None:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base) for base in node.bases]
            theirs = {name for base in bases if base.startswith("paramiko.") for name in dir(_named(base))}
            own = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
            own |= {each.name for each in ast.walk(node) if isinstance(each, ast.FunctionDef)}
            assert {name for name in own & theirs if name.startswith("_") and not name.startswith("__")} == set()


def _named(dotted: str) -> object:
    found: object = paramiko
    for name in dotted.split(".")[1:]:
        found = getattr(found, name)
    return found


def test_the_method_that_the_test_server_overrides_is_still_there() -> None:
    # tests/contract/conftest.py hears by it when a client was told. Without it those tests would wait for ever; the
    # bound of paramiko's version in the extra `dev` is for it alone.
    assert callable(getattr(paramiko.Transport, "_send_user_message", None))
