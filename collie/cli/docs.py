"""`collie docs`."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from collie.cli.base import CollieCommand
from collie.content.pages import EXAMPLE_INVENTORY, page_named, pages, title_of


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in (*pages(), EXAMPLE_INVENTORY) if name.startswith(incomplete)]


@click.command("docs", cls=CollieCommand)
@click.argument("page", required=False, shell_complete=_complete)
def command(page: str | None) -> int:
    """Print a page of the documentation, or list the pages. `hosts.example.yaml` is the example inventory.

    \b
    collie docs
    collie docs first-anomaly
    collie docs how-to/find-the-cliff
    collie docs hosts.example.yaml > my-hosts.yaml
    """
    if page is not None:
        click.echo_via_pager(page_named(page))  # click writes to a pipe as it is
        return 0
    found = pages()
    width = max(map(len, found))
    for name, path in found.items():
        click.echo(f"{name:{width}}  {title_of(path)}")
    click.echo(f"{EXAMPLE_INVENTORY:{width}}  An inventory of hosts, every line explained")
    return 0
