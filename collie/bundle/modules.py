"""The modules that a program needs, found from their imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "collie"
_ROOT = Path(__file__).resolve().parent.parent


def needed(module: str) -> dict[str, bytes]:
    """Return the files of a module and of all its imports from Collie, by name in an archive.

    The `__init__` of a package is empty unless a name is imported from it.
    """
    found: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _path(name)
        archived = str(path.relative_to(_ROOT.parent))
        if found.get(archived):
            continue
        found[archived] = source = path.read_bytes()
        waiting += _imported(source, name)
    for archived in tuple(found):
        for parent in list(Path(archived).parents)[:-1]:
            found.setdefault(str(parent / "__init__.py"), b"")
    return dict(sorted(found.items()))


def imports(source: bytes, importer: str) -> Iterator[tuple[str, str | None]]:
    """Yield (module, name imported from it or None) for every import of the module `importer` at run time."""
    for node in _running(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importer.split(".")[: -node.level] if node.level else []
            module = ".".join([*base, node.module] if node.module else base)
            yield from ((module, alias.name) for alias in node.names)


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _running(node)


def _imported(source: bytes, importer: str) -> Iterator[str]:
    for module, name in imports(source, importer):
        if module.partition(".")[0] != PACKAGE:
            continue
        submodule = f"{module}.{name}"
        yield submodule if name is not None and _is_module(submodule) else module


def _is_module(name: str) -> bool:
    path = _ROOT.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _path(name: str) -> Path:
    path = _ROOT.parent.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
