"""Base classes of all commands, and their errors."""

from __future__ import annotations

import json
from collections import Counter

import click

INTERRUPTED = 130


def print_error(message: str, exit_code: int, *, as_json: bool) -> None:
    """Print why a command ends as it does on stderr, as one line of JSON or for people."""
    if as_json:
        document = {"schema_version": 1, "error": {"message": message, "exit_code": exit_code}}
        click.echo(json.dumps(document, ensure_ascii=False), err=True)
    else:
        click.echo(message if exit_code == INTERRUPTED else f"collie: {message}", err=True)


class CollieCommand(click.Command):
    """A command that refuses a repeated option. click would use the last value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a command line."""
        if not ctx.resilient_parsing:  # not during completion in a shell
            self._refuse_repeated(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_repeated(self, ctx: click.Context, args: list[str]) -> None:
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for option, times in Counter(given).items():
            if times > 1 and isinstance(option, click.Option) and not (option.multiple or option.is_flag):
                ctx.fail(f"{max(option.opts, key=len)} is given {times} times but takes one value; give it once.")


class CollieGroup(click.Group):
    """A group of `CollieCommand`."""

    command_class = CollieCommand
    group_class = type
