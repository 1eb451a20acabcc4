"""What every command of `collie` is made of: an option that takes one value is given once."""

from __future__ import annotations

from collections import Counter

import click


class CollieCommand(click.Command):
    """Refuses an option that is given twice, of which click would keep the last without a word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of a command line."""
        if not ctx.resilient_parsing:  # that of a shell which completes a word
            self._refuse_repeated(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_repeated(self, ctx: click.Context, args: list[str]) -> None:
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for option, times in Counter(given).items():
            if times > 1 and isinstance(option, click.Option) and not (option.multiple or option.is_flag):
                ctx.fail(f"{max(option.opts, key=len)} is given {times} times, and takes one value; give it once.")


class CollieGroup(click.Group):
    """A command of several, each of which is a `CollieCommand`."""

    command_class = CollieCommand
    group_class = type
