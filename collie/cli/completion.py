"""`collie completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from collie.cli.commands import CollieCommand
from collie.errors import UsageError

_PROGRAM = "collie"
_VARIABLE = "_COLLIE_COMPLETE"


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
    if kind is None:  # click supports all three; a patched one may not
        raise UsageError(f"this version of click has no completion for {shell}")
    completion = kind(ctx.find_root().command, {}, _PROGRAM, _VARIABLE)
    click.echo(completion.source_template % completion.source_vars())
    return 0
