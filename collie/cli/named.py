"""Campaigns and anomalies that the command line names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from collie.app.listing import last_campaign
from collie.cli import complete
from collie.cli.complete import LAST


class Named(click.types.StringParamType):
    """A campaign, or an anomaly of one. `last` and `last/a1` are of the search that recorded a run last."""

    def __init__(self, completer: complete.Completer) -> None:
        self._completer = completer

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, with the path of the campaign in the place of `last` if there is one."""
        name = str(super().convert(value, param, ctx))
        first, slash, rest = name.partition("/")
        if first != LAST or os.path.lexists(first):
            return name
        campaign = last_campaign(Path())
        return name if campaign is None else f"{campaign}{slash}{rest}"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete a name."""
        last = [CompletionItem(LAST)] if incomplete and LAST.startswith(incomplete) else []
        return [*last, *self._completer(ctx, param, incomplete)]


class NewDirectory(click.types.StringParamType):
    """A directory that is made."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the path."""
        return str(super().convert(value, param, ctx)) or self.fail("it is empty; name a directory", param, ctx)


CAMPAIGN = Named(complete.campaigns)
ANOMALY = Named(complete.anomalies)
KNOWN = Named(complete.known)
NEW_DIRECTORY = NewDirectory()
