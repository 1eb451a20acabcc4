"""`collie completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from collie.cli.base import CollieCommand


@click.command("completion", cls=CollieCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> int:
    """Print a script that completes Collie's commands, options, campaigns and names of content in a shell.

    \b
    eval "$(collie completion bash)"          # in ~/.bashrc
    eval "$(collie completion zsh)"           # in ~/.zshrc
    collie completion fish | source           # in ~/.config/fish/config.fish
    collie completion bash > /etc/bash_completion.d/collie
    """
    kind = get_completion_class(shell)
    assert kind is not None
    completion = kind(ctx.find_root().command, {}, "collie", "_COLLIE_COMPLETE")
    click.echo(completion.source_template % completion.source_vars())  # click's `source` would need that shell
    return 0
