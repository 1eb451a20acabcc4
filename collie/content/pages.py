"""The pages of the documentation, and the example inventory, in the wheel or the checkout."""

from __future__ import annotations

from pathlib import Path

from collie.errors import UsageError
from collie.suggest import did_you_mean

EXAMPLE_INVENTORY = "hosts.example.yaml"

_PACKAGE = Path(__file__).resolve().parent.parent
_ROOTS = (_PACKAGE / "_content", _PACKAGE.parent)
_FOLDERS = ("tutorials", "how-to", "explanation", "reference", "evidence")


def pages() -> dict[str, Path]:
    """Return the pages by name, such as `how-to/find-the-cliff`, in the order in which a newcomer reads them."""
    docs = _root() / "docs"
    found = {"index": docs / "index.md"}
    for folder in _FOLDERS:
        found |= {f"{folder}/{path.stem}": path for path in sorted((docs / folder).glob("*.md"))}
    return found


def page_named(name: str) -> str:
    """Return the text of a page, named in full or by its last part, or of the example inventory.

    Raises:
        UsageError: there is no such page.
    """
    if name == EXAMPLE_INVENTORY:
        return (_root() / EXAMPLE_INVENTORY).read_text(encoding="utf-8")
    known = pages()
    short: dict[str, Path] = {}
    for page, path in known.items():
        short.setdefault(page.rpartition("/")[2], path)
    wanted = name.removesuffix(".md").removeprefix("docs/")
    found = known.get(wanted) or short.get(wanted)
    if found is None:
        hint = did_you_mean(wanted, (*known, *short)) or "; `collie docs` lists the pages"
        raise UsageError(f"there is no page {name!r}{hint}")
    return found.read_text(encoding="utf-8")


def title_of(path: Path) -> str:
    """Return the heading of a page."""
    with path.open(encoding="utf-8") as file:
        return next((line[2:].strip() for line in file if line.startswith("# ")), path.stem)


def _root() -> Path:
    return next(root for root in _ROOTS if (root / "docs" / "index.md").exists())
