"""What a test reads from a page of HTML."""

from __future__ import annotations

from collections import Counter as Tally
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "hr", "input"}


class Page(HTMLParser):
    """Checks that tags nest, and collects what a browser would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: Tally[str] = Tally()
        self.ids: Tally[str] = Tally()
        self.references: list[str] = []
        self.words: list[str] = []
        self.data = ""
        self.numbers: list[tuple[str, str, str]] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        self._collect(attrs)
        if tag == "data":
            given = dict(attrs)
            self.numbers.append((given["data-source"] or "", given["value"] or "", ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self._collect(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.data += data
        elif self.open and self.open[-1] != "style":
            self.words.append(data)
            if self.open[-1] == "data":
                self.numbers[-1] = (*self.numbers[-1][:2], data)

    def _collect(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            assert not name.startswith("on"), f"a page without scripts has no {name}"
            if name == "id":
                self.ids[value or ""] += 1
            if name in {"src", "href", "xlink:href", "action", "data"}:
                self.references.append(value or "")
