"""Shell completion of names from the file system. Errors give no suggestion, because a message would spoil the line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from collie import wiring
from collie.campaign.choice import DEFAULT_SUBSYSTEM, TestbedChoice
from collie.content import locate
from collie.content.locate import ContentKind
from collie.errors import CollieError, ContentError
from collie.fleet.fault import FaultKind
from collie.ports import CAMPAIGN_FILE
from collie.workloads.workload import FIELD_NAMES

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

LAST = "last"
"""Stands for the search that recorded a run last."""


def content(kind: ContentKind, *others: str) -> Completer:
    """Return a completer for the names of one kind of content, for `others`, and for files."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        named = _items((*_available(kind), *others), incomplete)
        return named or [CompletionItem(incomplete, type="file")]

    return complete


def inventories(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete an inventory."""
    return _items(("lab",), incomplete) or [CompletionItem(incomplete, type="file")]


def campaigns(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a campaign in `campaigns` or beside the typed path."""
    found = _items(_campaigns(incomplete), incomplete)
    return found or [CompletionItem(incomplete, type="dir")]


def anomalies(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a published anomaly, or CAMPAIGN/ID."""
    found = (str(path / each.name) for path in map(Path, _campaigns(incomplete)) for each in _below(path / "anomalies"))
    named = _items((*_available(ContentKind.ANOMALY), *found), incomplete)
    return named or [CompletionItem(incomplete, type="file")]


def known(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a collection of published anomalies, or a campaign."""
    collections = {name.rpartition("-")[0] for name in _available(ContentKind.ANOMALY)}
    return [*_items(sorted(collections), incomplete), *campaigns(ctx, param, incomplete)]


def dimensions(ending: str) -> Completer:
    """Return a completer for the dimensions of workloads, followed by a sign such as `=`."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        names = (*FIELD_NAMES, "message_bytes")
        return _items((f"{name}{ending}" for name in names), incomplete)

    return complete


def faults(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the kind of a fault, behind the name of a host."""
    host, sign, _ = incomplete.partition("=")
    return _items((f"{host}={kind}" for kind in FaultKind), incomplete) if sign else []


def settings(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a setting of the simulated subsystem on the command line, and its options behind `=`."""
    with suppress(CollieError):
        subsystem = wiring.subsystem_of(TestbedChoice(subsystem=ctx.params.get("subsystem") or DEFAULT_SUBSYSTEM))
        name, sign, _ = incomplete.partition("=")
        own = subsystem.settings.get(name)
        options = own.options if sign and own is not None else ()
        return _items(
            (f"{name}={each}" for each in options) if sign else (f"{each}=" for each in subsystem.settings), incomplete
        )
    return []


def _available(kind: ContentKind) -> Iterable[str]:
    with suppress(ContentError):
        return locate.available(kind)
    return ()


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _campaigns(incomplete: str) -> list[str]:
    typed = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    places = {Path("campaigns"), typed, typed.parent}
    inside = (each for place in places for each in (place, *_below(place)))
    return sorted({str(path) for path in inside if (path / CAMPAIGN_FILE).is_file()})


def _below(folder: Path) -> Iterable[Path]:
    with suppress(OSError):
        return sorted(path for path in folder.iterdir() if path.is_dir())
    return ()
