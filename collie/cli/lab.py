"""`collie lab`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from collie.cli.base import CollieGroup
from collie.cli.options import format_option, print_json
from collie.lab import lab
from collie.lab.links import DeadLink

_print_progress = partial(click.echo, err=True)


@click.group("lab", cls=CollieGroup)
def command() -> None:
    """Real verbs on this computer: two or more small virtual machines with Soft-RoCE. Needs QEMU and mmdebstrap."""


def _numbers(words: Sequence[str]) -> dict[str, int] | None:
    found = {}
    for word in words:
        name, _, number = word.partition("=")
        if not name or not number.isdecimal() or len(number) > 2:
            raise click.BadParameter(f"{word!r} is not of the form NAME=N, such as lab-a=2")
        found[name] = int(number)
    return found or None


@command.command("up")
@click.option("--machines", type=click.IntRange(min=2), help="Number of machines.  [default: 2]")
@click.option("--release", type=click.Choice(["bookworm", "trixie"]), help="Debian release.  [default: bookworm]")
@click.option("--mirror", metavar="URL", help="Mirror of Debian's packages, for the first build.")
@click.option(
    "--devices",
    metavar="NAME=N",
    multiple=True,
    callback=lambda _ctx, _param, words: _numbers(words),
    help="RoCE devices of a machine, such as lab-a=2. Repeatable.  [default: 1 each]",
)
@format_option
def up(
    machines: int | None, release: str | None, mirror: str | None, devices: Mapping[str, int] | None, output: str
) -> int:
    """Build the image if it is missing, start the machines, and write their inventory.

    \b
    collie lab up
    collie lab up --machines 4 --release trixie
    collie lab up --devices lab-a=2
    """
    status = lab.up(machines=machines, release=release, mirror=mirror, devices=devices, say=_print_progress)
    if output == "json":
        print_json(_as_json(status, ()))
    else:
        click.echo(status.inventory)
    return 0


@command.command("status")
@format_option
def status(output: str) -> int:
    """Show which machines run and answer, and the dead links between them.

    \b
    collie lab status
    """
    found, dead = lab.status(), lab.dead_links()
    if output == "json":
        print_json(_as_json(found, dead))
    elif not found.machines:
        click.echo("no lab is up; start one with `collie lab up`")
    else:
        for one in found.machines:
            state = "answers" if one.answering else "does not answer" if one.alive else "is down"
            click.echo(f"{one.name}  {state}  ssh 127.0.0.1:{one.ssh_port}  RoCE {', '.join(one.data_addresses)}")
        for link in dead:
            click.echo(f"dead link  {link}; `collie lab up` repairs it")
        if found.inventory:
            click.echo(f"inventory  {found.inventory}")
    return 0 if found.answering and not dead else 3


@command.command("ssh", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def ssh(name: str, words: tuple[str, ...]) -> None:
    """Open a session on a machine, or run a command there.

    \b
    collie lab ssh lab-a
    collie lab ssh lab-a -- rdma link
    """
    argv = lab.ssh_argv(name, *words)
    os.execvp(argv[0], argv)  # noqa: S606 - the user asked for exactly this program


@command.command("down")
@format_option
def down(output: str) -> int:
    """Stop the machines. The image stays cached.

    \b
    collie lab down
    """
    stopped = lab.down(say=_print_progress)
    if output == "json":
        print_json({"schema_version": 1, "stopped": list(stopped)})
    return 0


def _as_json(status: lab.LabStatus, dead: Sequence[DeadLink]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "release": status.release,
        "inventory": str(status.inventory) if status.inventory else None,
        "machines": [
            {
                "name": one.name,
                "pid": one.pid,
                "ssh_port": one.ssh_port,
                "data_address": one.data_addresses[0],
                "data_addresses": list(one.data_addresses),
                "answering": one.answering,
            }
            for one in status.machines
        ],
        "dead_links": [asdict(link) for link in dead],
    }
