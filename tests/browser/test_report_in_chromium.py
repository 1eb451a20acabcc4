"""The report as a reader meets it: in a browser, offline, dark, at 200 %, by keyboard, on paper."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from collie.cli.search import command as search
from tests.browser.chromium import Page

MAX_BYTES = 5_000_000
NAMES = ["report.html", "against-campaign.html", "gate/report.html", "fleet.html"]

LEGIBLE = """[...document.querySelectorAll('svg text')].filter(text => text.checkVisibility()).flatMap(text => {
  const size = text.getBoundingClientRect().height;
  return size < 9 ? [`${text.textContent}: ${size} px`] : [];
})"""
"""Words in pictures that are too small."""

OVERLAPPING = """[...document.querySelectorAll('svg')].flatMap(svg => {
  const boxes = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], i) => boxes.slice(i + 1).flatMap(([other, b]) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3
      ? [`${one} over ${other}`] : []));
})"""
"""Words in pictures that lie over each other."""

CUT_OFF = """[...document.querySelectorAll('svg')].flatMap(svg => {
  const all = (svg.closest('.picture') || svg).getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => text.checkVisibility()).flatMap(text => {
    const box = text.getBoundingClientRect();
    return box.left < all.left - 1 || box.right > all.right + 1 || box.bottom > all.bottom + 1
      ? [text.textContent] : [];
  });
})"""
"""Words in pictures that reach over their edge."""

OPEN = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
"""Opens whatever folds. Nothing of it has a size before."""

FAINT = """(() => {
  const rgb = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (one, other) => {
    const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const paper = rgb(getComputedStyle(document.body).backgroundColor);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = rgb(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return paper;
  };
  const found = new Set();
  const check = (name, colour, back, least) => {
    const contrast = ratio(rgb(colour), back);
    if (contrast < least) found.add(`${name}: ${contrast.toFixed(2)}`);
  };
  for (const element of document.querySelectorAll('body *:not(svg *)')) {
    const spoken = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (spoken && element.tagName !== 'SCRIPT')
      check(`${element.tagName}.${element.className}`, getComputedStyle(element).color, behind(element), 4.5);
  }
  for (const text of document.querySelectorAll('svg text'))
    check(`text.${text.className.baseVal}`, getComputedStyle(text).fill, paper, 4.5);
  for (const line of document.querySelectorAll('svg .squares, svg .dots, svg [class^=host]'))
    check(`line.${line.className.baseVal}`, getComputedStyle(line).stroke, paper, 3);
  for (const area of document.querySelectorAll('svg .explained, svg .cell.inside, svg .runs, svg .anomalous'))
    check(`area.${area.className.baseVal}`, getComputedStyle(area).fill, paper, 3);
  return [...found];
})()"""
"""What stands out too little from what is behind it (WCAG 2.1: 4.5 for words, 3 for pictures)."""

UNNAMED = """[...document.querySelectorAll('svg[role=img], table, section, article, nav, [tabindex]')].filter(element =>
  !(element.getAttribute('aria-label') || element.getAttribute('aria-labelledby')
    || element.querySelector('caption') || element.tagName === 'PRE')).map(element => element.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("name", NAMES)
def test_it_opens_alone_and_without_a_complaint(page: Page, campaign: Path, name: str) -> None:
    path = campaign / name
    assert path.stat().st_size < MAX_BYTES
    page.open(path)
    assert page.console == []
    assert page.requests == [path.as_uri()]
    assert page.evaluate("document.title").startswith("Collie: ")
    assert page.evaluate("document.querySelectorAll('svg[role=img]').length") > 0


def test_its_policy_lets_nothing_run_and_nothing_leave(page: Page, campaign: Path, tmp_path: Path) -> None:
    """The same page with a script and a picture from elsewhere smuggled in: neither comes to anything."""
    html = (campaign / "report.html").read_text()
    smuggled = tmp_path / "smuggled.html"
    smuggled.write_text(html.replace("<main", '<script>alert(1)</script><img src="http://192.0.2.1/x.png"><main', 1))
    page.open(smuggled)
    refused = [line for line in page.console if "Content Security Policy" in line]
    assert len(refused) == 2
    assert "Executing inline script" in refused[0]
    assert "Loading the image" in refused[1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everything_stands_out_from_what_is_behind_it(page: Page, campaign: Path, name: str, dark: bool) -> None:
    page.open(campaign / name, dark=dark)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 384) == dark
    page.evaluate(OPEN)
    assert page.evaluate(FAINT) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("width", "zoom"), [(1280, 1.0), (1280, 2.0), (800, 2.0), (400, 1.0)])
def test_pictures_can_be_read(page: Page, campaign: Path, name: str, width: int, zoom: float) -> None:
    page.open(campaign / name, width=width, zoom=zoom)
    page.evaluate(OPEN)
    assert page.evaluate("[...document.querySelectorAll('svg[role=img]')].every(e => e.getBoundingClientRect().width)")
    assert page.evaluate(LEGIBLE) == []
    assert page.evaluate(OVERLAPPING) == []
    assert page.evaluate(CUT_OFF) == []
    # No picture scrolls: on a phone, its right half would be out of sight.
    assert page.evaluate("[...document.querySelectorAll('.picture')].every(e => e.scrollWidth <= e.clientWidth)")
    # What is too wide scrolls by itself; the page as a whole never does (WCAG 2.1, 1.4.10).
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_read_without_eyes_and_without_a_mouse(page: Page, campaign: Path, name: str) -> None:
    page.open(campaign / name)
    levels: list[int] = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate("[...document.querySelectorAll('th')].filter(th => !th.scope).length") == 0
    lost = "[...document.querySelectorAll('a')].filter(a => !document.getElementById(a.hash.slice(1))).map(a => a.hash)"
    assert page.evaluate(lost) == []
    page.evaluate(OPEN)
    page.press("Tab")
    assert page.evaluate("document.activeElement.hash") == "#content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    reached = set()
    while (tag := page.evaluate("document.activeElement.tagName")) != "BODY":
        reached.add(tag)
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        page.press("Tab")
    assert reached >= {"A", "SUMMARY", "DIV" if name == "fleet.html" else "PRE"}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_first_screen_is_verdict_table_and_picture(page: Page, campaign: Path, dark: bool) -> None:
    page.open(campaign / "report.html", dark=dark)
    for part in ("h1", ".verdict .lead", ".first .ranking", ".overview svg"):
        box = page.evaluate(f"(e => [e.top, e.bottom])(document.querySelector('{part}').getBoundingClientRect())")
        assert 0 <= box[0] < box[1] <= 900, part
    assert page.evaluate("document.querySelectorAll('details[open]').length") == 0
    assert page.evaluate("[...document.querySelectorAll('article')].every(e => !e.checkVisibility())")


def test_a_link_in_the_table_opens_what_it_names(page: Page, campaign: Path) -> None:
    page.open(campaign / "report.html")
    name = page.evaluate("document.querySelector('.ranking a').hash")
    page.evaluate("document.querySelector('.ranking a').click()")
    page.evaluate("new Promise(done => setTimeout(done, 50))")
    assert page.evaluate(f"document.querySelector('{name}').checkVisibility()")
    assert page.evaluate("document.querySelectorAll('details[open]').length") == 1


def test_all_of_it_is_printed(page: Page, campaign: Path) -> None:
    """But pictures and long tables of an anomaly only if the reader opened it."""
    page.open(campaign / "report.html", dark=True)
    page.call("Emulation.setEmulatedMedia", media="print")
    folded = "[...document.querySelectorAll('details > :not(summary):not(.opened)')]"
    displayed: Any = page.evaluate(f"{folded}.map(e => e.getBoundingClientRect().height > 0)")
    assert displayed
    assert all(displayed)
    heights = "[...document.querySelectorAll('.finding .opened')].map(e => e.getBoundingClientRect().height > 0)"
    assert not any(page.evaluate(heights))
    page.evaluate(OPEN)
    assert all(page.evaluate(heights))
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    pdf = page.printed()
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 20_000


def test_the_map_of_a_fleet_colours_the_fault_alone(page: Page, campaign: Path) -> None:
    page.open(campaign / "fleet.html")
    alarm = page.evaluate("getComputedStyle(document.querySelector('.key.fault')).backgroundColor")
    cells = "[...document.querySelectorAll('.heat td')]"
    red: Any = page.evaluate(
        f"{cells}.filter(e => getComputedStyle(e).backgroundColor === '{alarm}').map(e => e.parentElement.innerText)"
    )
    assert len(red) == 1
    assert red[0].startswith("host-007")
    assert page.evaluate(f"{cells}.filter(e => e.className === 'follows').length") > 3


@pytest.mark.slow
def test_a_campaign_of_ten_hours_prints_on_twelve_pages(page: Page, tmp_path: Path) -> None:
    words = ["--subsystem", "F", "--budget", "10h", "--seed", "1", "--campaign", str(tmp_path / "campaign")]
    done = CliRunner().invoke(search, words)
    assert done.exception is None, done.output
    page.open(tmp_path / "campaign" / "report.html")
    assert page.evaluate("document.querySelectorAll('.finding').length") > 20
    assert 4 <= sheets(page.printed()) <= 12
    # The table ends within the first screen, whatever its conditions.
    assert page.evaluate("document.querySelector('.first .ranking').getBoundingClientRect().bottom") <= 900


def sheets(pdf: bytes) -> int:
    """Return the number of pages of a PDF that Chromium wrote."""
    return len(re.findall(rb"/Type /Page\b(?!s)", pdf))
