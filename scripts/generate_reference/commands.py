"""Commands, their arguments and options, from click."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click
from words import limits

from collie.cli.main import cli


def leaves(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that can be run, with the words that call it."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (child := command.get_command(context, name)) is not None:
                yield from leaves(child, (*path, name))
    else:
        yield " ".join(path), command


def command_blocks() -> Iterator[str]:
    """Yield the page, block by block."""
    found = dict(leaves(cli, ("collie",)))
    yield "Every command takes `-h` or `--help`; [exit codes](exit-codes.md) are the same for all."
    yield "\n".join(f"- [`{name}`](#{name.replace(' ', '-')}): {_summary(found[name])}" for name in found)
    for name, command in found.items():
        yield f"## {name}"
        yield from _command(name, command)


def _command(name: str, command: click.Command) -> Iterator[str]:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    yield f"`{' '.join((name, '[OPTIONS]', *map(_argument, arguments)))}`"
    texts = (inspect.cleandoc(text) for text in (command.help, command.epilog) if text)
    for text in "\n\n".join(texts).split("\n\n"):
        # A line with a backspace keeps click from wrapping the paragraph below it.
        unwrapped = text.startswith("\b\n")
        yield f"```sh\n{text[2:]}\n```" if unwrapped else " ".join(text.split())
    rows = [f"| {_option(each)} | {_meaning(each)} |" for each in options]
    if rows:
        yield "\n".join(["| option | meaning |", "|---|---|", *rows])


def _argument(argument: click.Argument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    if isinstance(argument.type, click.Choice):
        name = "|".join(map(str, argument.type.choices))
    many = "..." if argument.nargs < 0 and not name.endswith("...") else ""
    return f"{name}{many}" if argument.required or name.startswith("[") else f"[{name}]{many}"


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else _value(option).replace("|", "\\|")
    return f"{names} {value}".rstrip()


def _value(option: click.Option) -> str:
    match option.type:
        case click.Choice(choices=choices):
            return "|".join(map(str, choices))
        case click.IntRange() | click.FloatRange():
            found = {
                "exclusiveMinimum" if option.type.min_open else "minimum": option.type.min,
                "exclusiveMaximum" if option.type.max_open else "maximum": option.type.max,
            }
            return f"N {', '.join(limits({key: value for key, value in found.items() if value is not None}))}".strip()
    return option.metavar or ("N" if option.type in (click.INT, click.FLOAT) else "TEXT")


def _meaning(option: click.Option) -> str:
    text = " ".join((option.help or "").split()).replace("|", "\\|")
    return f"{text} [default: {option.default}]" if option.show_default else text


def _summary(command: click.Command) -> str:
    return command.get_short_help_str(limit=200)
