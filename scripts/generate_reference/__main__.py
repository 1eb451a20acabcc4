"""Write docs/reference/*.md from the program: commands from click, content fields from the models that read them.

Usage: scripts/reference [--check]; --check writes nothing, and exits 1 when a page is not up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from commands import command_blocks
from content import content_blocks
from exit_codes import exit_code_blocks

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
MADE = "<!-- Written by scripts/reference; edit the program, not this page. -->"


def pages() -> dict[str, str]:
    """Return every page by its file name."""
    return {
        "commands.md": _page("Commands", command_blocks()),
        "content.md": _page("Content files: every field", content_blocks()),
        "exit-codes.md": _page("Exit codes", exit_code_blocks()),
    }


def main(argv: list[str]) -> int:
    """Write the pages, or compare them."""
    made = pages()
    stale = [name for name, text in made.items() if not _holds(FOLDER / name, text)]
    if "--check" in argv:
        for name in stale:
            print(f"docs/reference/{name} is not up to date: run scripts/reference", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(made[name], encoding="utf-8")
    return 0


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def _page(title: str, blocks: Iterator[str]) -> str:
    return "\n\n".join([f"# {title}", MADE, *blocks]) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
