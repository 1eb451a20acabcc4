"""The page of a sweep: one file with its figure and its points."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from collie import __version__
from collie.report.html.page import environment


def render_sweep_page(
    title: str, figure: bytes, cliffs: Sequence[str], heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    """Return the page. `figure` is an SVG."""
    return (
        environment()
        .get_template("sweep.html.j2")
        .render(
            version=__version__,
            title=title,
            figure=f"data:image/svg+xml;base64,{b64encode(figure).decode()}",
            cliffs=list(cliffs),
            heads=list(heads),
            rows=[list(row) for row in rows],
        )
    )
