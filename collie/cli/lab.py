"""`collie lab`."""

from __future__ import annotations

import os

import click

from collie.cli.options import print_json
from collie.lab import lab


@click.group("lab")
def command() -> None:
    """Real verbs on this computer: two or more small virtual machines with Soft-RoCE. Needs QEMU and mmdebstrap."""


def _say(line: str) -> None:
    click.echo(line, err=True)


@command.command("up")
@click.option("--machines", type=click.IntRange(min=2), default=None, help="How many.  [default: 2]")
@click.option(
    "--release", type=click.Choice(["bookworm", "trixie"]), default=None, help="Debian release.  [default: bookworm]"
)
@click.option("--mirror", metavar="URL", help="Where to get Debian's packages from, for the first build.")
def up(machines: int | None, release: str | None, mirror: str | None) -> int:
    """Build the image if there is none, start the machines, and write their inventory."""
    status = lab.up(machines=machines, release=release, mirror=mirror, say=_say)
    click.echo(status.inventory)
    return 0


@command.command("status")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text")
def status(output: str) -> int:
    """Say which machines run and answer."""
    found = lab.status()
    if output == "json":
        machines = [
            {
                "name": one.name,
                "pid": one.pid,
                "ssh_port": one.ssh_port,
                "data_address": one.data_address,
                "answering": one.answering,
            }
            for one in found.machines
        ]
        inventory = str(found.inventory) if found.inventory else None
        print_json({"schema_version": 1, "release": found.release, "inventory": inventory, "machines": machines})
    elif not found.machines:
        click.echo("no lab is up; start one with `collie lab up`")
    else:
        for one in found.machines:
            state = "answers" if one.answering else "does not answer" if one.alive else "is down"
            click.echo(f"{one.name}  {state}  ssh 127.0.0.1:{one.ssh_port}  RoCE {one.data_address}")
        if found.inventory:
            click.echo(f"inventory  {found.inventory}")
    return 0 if found.answering else 3


@command.command("ssh", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def ssh(name: str, words: tuple[str, ...]) -> None:
    """Open a session on a machine, or run a command there."""
    argv = lab.ssh_argv(name, *words)
    os.execvp(argv[0], argv)  # noqa: S606 - the user asked for exactly this program


@command.command("down")
def down() -> int:
    """Stop the machines; the image stays cached."""
    lab.down(say=_say)
    return 0
