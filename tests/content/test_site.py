"""The pages as a site: mkdocs builds it without a warning, and it loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LOADED = re.compile(r"<(?:script|img|iframe)[^>]* src=[\"']?([^\"' >]+)|<link[^>]* href=[\"']?([^\"' >]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Strict mode makes each dead link or anchor, and each page without a place, an error."""
    folder = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(ROOT / "mkdocs.yml")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an advertisement of the theme
    done = subprocess.run(
        [*argv, "--site-dir", str(folder)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_no_fence_is_shown_as_text(site: Path) -> None:
    displayed = [
        page.name for page in site.rglob("*.html") if re.search(r"<p>[^<]*```", page.read_text(encoding="utf-8"))
    ]
    assert not displayed


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = {
        next(filter(None, match.groups()))
        for page in site.rglob("*.html")
        for match in _LOADED.finditer(page.read_text(encoding="utf-8"))
    }
    assert loaded
    assert not [target for target in loaded if re.match(r"(https?:)?//", target)]


def test_every_page_is_two_clicks_away(site: Path) -> None:
    pages = {page.relative_to(site) for page in site.rglob("*.html")} - {Path("404.html")}
    reached = {Path("index.html")}
    for _click in range(2):
        reached |= {target for page in reached for target in _links(site, page)}
    assert pages <= reached


def _links(site: Path, page: Path) -> set[Path]:
    text = (site / page).read_text(encoding="utf-8")
    targets = [target.split("#")[0] for target in re.findall(r"<a[^>]* href=[\"']?([^\"' >]+)", text)]
    places = {Path(os.path.normpath(page.parent / target)) for target in targets if target.endswith(".html")}
    return {place for place in places if (site / place).is_file()}
