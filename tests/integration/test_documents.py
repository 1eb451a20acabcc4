"""What the pages of docs/ and the README print: commands run as printed, links lead somewhere.

A block with the language `sh` or `console` (there, lines that begin with `$ `) is run, in a fresh directory per page,
the blocks of a page one after another. A comment in the line before the block such as `<!-- needs: lab -->` changes
that; the README has words behind the language instead (`sh needs=lab`):

    needs: lab | hosts | time | network | code | files   the block is not run (`files`: of the reader), but parsed
    exit: 1       the last command exits with that
    file: NAME    the block is a file that the commands of the page use

A block without a language is text; commands in it would escape, so there may be none.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import click
import pytest

from collie.cli.main import cli, run

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
WRITTEN_BY_PROGRAM = {DOCS / "reference" / name for name in ("commands.md", "content.md", "exit-codes.md")}
PAGES = [ROOT / "README.md", *sorted({*DOCS.rglob("*.md")} - {*(DOCS / "adr").glob("*.md"), *WRITTEN_BY_PROGRAM})]
_FENCE = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*) -->\n+)?^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_NEEDS = {"lab", "hosts", "time", "network", "code", "files"}


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page, line: where it stands.
        language: the first word behind the fence.
        said: `needs`, `exit`, `file`.
        text: between the fences.
    """

    page: Path
    line: int
    language: str
    said: Mapping[str, str]
    text: str

    @property
    def commands(self) -> list[str]:
        """Lines to run; continued lines are one."""
        joined = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            return [line.removeprefix("$ ") for line in joined if line.startswith("$ ")]
        return [line for line in joined if line.strip() and not line.startswith("#")] if self.language == "sh" else []

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        language, *words = match["info"].split() or [""]
        said = dict(re.findall(r"(\w+)[=:]\s*([^\s,]+)", f"{match['comment'] or ''} {' '.join(words)}"))
        line = text.count("\n", 0, match.start("info")) + 1
        yield Block(page, line, language, said, textwrap.dedent(match["text"]))


ALL = [block for page in PAGES for block in blocks(page)]
PAGES_WITH_COMMANDS = [
    page for page in PAGES if any(block.page == page and block.commands and "needs" not in block.said for block in ALL)
]
COMMANDS = [(block, command) for block in ALL for command in block.commands if "collie" in command]


@pytest.mark.parametrize("block", [block for block in ALL if not block.language], ids=str)
def test_no_command_escapes(block: Block) -> None:
    if block.page.name != "README.md":
        assert not re.search(r"^(\$ )?collie ", block.text, re.MULTILINE), f"{block}: call this block sh or console"


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_no_command_is_indented_only(page: Path) -> None:
    outside = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"^ {4,}(\$ )?collie ", outside, re.MULTILINE), f"{page.name}: put commands into a block sh"


@pytest.mark.parametrize("block", [block for block in ALL if block.said], ids=str)
def test_what_a_block_says_is_understood(block: Block) -> None:
    assert set(block.said) <= {"needs", "exit", "file"}, block
    assert block.said.get("needs", "lab") in _NEEDS, block


@pytest.mark.parametrize(("block", "command"), COMMANDS, ids=lambda each: each if isinstance(each, str) else str(each))
def test_every_command_parses(block: Block, command: str) -> None:
    for words in _calls(command):
        _parse(cli, ["collie"], words)


def _calls(command: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of collie in a line of shell."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for token in (*lexer, ";"):
        if token[0] in "|;&()<>":
            if "collie" in words and words.index("collie") <= _first_word(words):
                yield words[words.index("collie") + 1 :]
            words = []
        else:
            words.append(token)


def _first_word(words: list[str]) -> int:
    """Where the program is: behind settings of variables and programs that run another."""
    return next((i for i, word in enumerate(words) if "=" not in word and word not in {"watch", "time", "sudo"}), 0)


def _parse(command: click.Command, path: list[str], words: list[str]) -> None:
    if not isinstance(command, click.Group):
        command.make_context(" ".join(path), list(words))
        return
    assert words, f"{' '.join(path)} needs a command"
    if words[0] in {"--help", "--version"}:
        return
    child = command.get_command(click.Context(command), words[0])
    assert child is not None, f"there is no {' '.join([*path, words[0]])}"
    _parse(child, [*path, words[0]], words[1:])


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which a shell finds `collie`."""
    programs = tmp_path_factory.mktemp("bin")
    (programs / "collie").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m collie "$@"\n')
    (programs / "collie").chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=lambda page: page.name)
def test_the_commands_of_a_page_run_as_printed(
    page: Path,
    shell: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    mine = [block for block in ALL if block.page == page]
    shutil.copy(ROOT / "hosts.example.yaml", tmp_path)
    for block in mine:
        if "file" in block.said:
            (tmp_path / block.said["file"]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.said["file"]).write_text(block.text, encoding="utf-8")
    for block in mine:
        if "needs" in block.said:
            continue
        for command in block.commands:
            status = _run(command, shell)
            output = "".join(capfd.readouterr())
            expected = int(block.said.get("exit", 0)) if command == block.commands[-1] else 0
            assert status == expected, f"{block}: `{command}` exited {status}:\n{output[-3000:]}"


def _run(command: str, shell: dict[str, str]) -> int:
    """Run a line: in this process if it is nothing but a call of collie, which spares the start of another."""
    bare = re.split(r"\s#", command)[0]
    if bare.startswith("collie ") and not re.search(r"[|<>&;$`*?]", bare):
        return run(shlex.split(bare)[1:])
    return subprocess.run(["bash", "-euo", "pipefail", "-c", command], env=shell, timeout=120, check=False).returncode


def _anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *sorted(WRITTEN_BY_PROGRAM)], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / unquote(path)).resolve() if path else page
        assert linked.exists(), f"{page.name}: {target}"
        if anchor and linked.suffix == ".md":
            assert anchor in _anchors(linked), f"{page.name}: {target}"


def test_the_index_names_every_page() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = [str(page.relative_to(DOCS)) for page in (*PAGES[1:], *WRITTEN_BY_PROGRAM)]
    missing = [page for page in pages if page != "index.md" and f"]({page}" not in index]
    assert not missing, f"docs/index.md does not lead to {missing}"
