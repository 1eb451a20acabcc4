"""The `collie` command, and the exit codes."""

from __future__ import annotations

import errno
import importlib
import json
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import click
from click.shell_completion import CompletionItem

import collie
from collie.cli.base import CollieGroup
from collie.errors import CollieError
from collie.interrupts import ignore_signals, install_handlers
from collie.streams import outlive_readers
from collie.suggest import did_you_mean
from collie.untrusted import LineFormatter, sanitized

_COMMANDS = {
    "search": ("collie.cli.search", "Search for anomalies, confirm and explain them."),
    "measure": ("collie.cli.measure", "Run one workload and judge it."),
    "diagnose": ("collie.cli.diagnose", "Find out why a workload is slow, and the cheapest change."),
    "isolate": ("collie.cli.isolate", "Find the workloads with which one tenant holds up another."),
    "sweep": ("collie.cli.sweep", "Measure a workload along one or two dimensions, and mark the cliffs."),
    "perftest": ("collie.cli.perftest", "Run a perftest command line: its own table, and the verdict."),
    "reproduce": ("collie.cli.reproduce", "Run a known or found anomaly again."),
    "export": ("collie.cli.export", "Write an anomaly in a form that does not need Collie."),
    "status": ("collie.cli.status", "Show the state of a campaign, while it runs or after."),
    "list": ("collie.cli.list", "List the campaigns of a folder: what, when, state and findings."),
    "runs": ("collie.cli.runs", "List the runs of a campaign, also as CSV or JSON lines."),
    "check": ("collie.cli.check", "List the known anomalies that an application can hit, and the remedies."),
    "gate": ("collie.cli.gate", "Refuse a firmware that is worse than a baseline: exit code, JUnit, Markdown."),
    "fleet": ("collie.cli.fleet", "Find the odd hosts of a fleet."),
    "report": ("collie.cli.report", "Write the HTML report of a campaign."),
    "space": ("collie.cli.space", "Show or validate a space of workloads."),
    "subsystem": ("collie.cli.subsystem", "List, show, check and map simulated subsystems."),
    "counters": ("collie.cli.counters", "List or watch the counters of a NIC."),
    "hosts": ("collie.cli.hosts", "Check, calibrate and compare real hosts."),
    "lab": ("collie.cli.lab", "Two Soft-RoCE machines on this computer."),
    "docs": ("collie.cli.docs", "Print a page of the documentation."),
    "completion": ("collie.cli.completion", "Complete commands and names in your shell."),
}

_DEBUG_VARIABLE = "COLLIE_DEBUG"
_FULL = (errno.ENOSPC, errno.EDQUOT)

EXIT_CODES = """\b
Exit codes:
  0    done (an anomaly found by `search` or `measure` is a result)
  1    the answer is bad: an anomaly was not reproduced, an application hits a
       known one, a gate found a new or worse one, a subsystem file makes a
       wrong claim, two hosts differ, a host of a fleet is odd, perftest cannot
       express an anomaly
  2    bad usage or bad input
  3    could not measure: a host, the lab or a part of it is missing,
       a campaign died, or Collie itself failed
  4    inconclusive
  5    nothing was run
  130  interrupted, after cleaning up"""


class _LazyGroup(CollieGroup):
    """Imports a subcommand only to run it, because importing numpy takes long."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS and ctx.resilient_parsing:  # in a shell's completion
            return None
        if cmd_name not in _COMMANDS:
            ctx.fail(f"No such command {cmd_name!r}{did_you_mean(cmd_name, _COMMANDS)}")
        command: click.Command = importlib.import_module(_COMMANDS[cmd_name][0]).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        named = [(name, summary) for name, (_module, summary) in _COMMANDS.items() if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=summary) for name, summary in named), *options]

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_module, summary) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(collie.__version__, prog_name="collie")
def cli() -> None:
    """Find performance anomalies in RDMA subsystems before production does.

    Without --hosts everything runs on a simulated subsystem. `collie lab up` gives real verbs on this computer.
    """


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    install_handlers()
    outlive_readers()
    if logging.lastResort is not None:  # it prints warnings outside a campaign
        logging.lastResort.setFormatter(LineFormatter())
    try:
        code = run(argv)
        ignore_signals()
    except KeyboardInterrupt:  # a second interrupt, during the handling of the first
        ignore_signals()
        code = 130
    # After an interrupt during `exec`, as in dataclasses, Python ends a `-m` program with SIGINT at exit. Another
    # `exec` resets that.
    exec("")  # noqa: S102
    sys.exit(code)


def run(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    With `--format json`, an error is a JSON object on stderr, too.
    """
    as_json = _asks_for_json(sys.argv[1:] if argv is None else argv)
    try:
        result: Any = cli.main(args=argv, prog_name="collie", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except click.ClickException as error:
        if as_json:
            _show_json(error.format_message(), 2)
        else:
            error.show()
        return 2
    except CollieError as error:
        if as_json:
            _show_json(str(error), error.exit_code)
        else:
            click.echo(f"collie: {error}", err=True)
        return error.exit_code
    except OSError as error:
        if error.errno not in _FULL:
            return _unforeseen(error)
        click.echo(f"collie: the output of this command could not be written: {error.strerror}", err=True)
        return 3
    except Exception as error:
        return _unforeseen(error)
    return result if isinstance(result, int) else 0


def _asks_for_json(words: Sequence[str]) -> bool:
    return "--format=json" in words or ("--format", "json") in pairwise(words)


def _show_json(message: str, exit_code: int) -> None:
    document = {"schema_version": 1, "error": {"message": message, "exit_code": exit_code}}
    click.echo(json.dumps(document, ensure_ascii=False), err=True)


def _unforeseen(error: Exception) -> int:
    if os.environ.get(_DEBUG_VARIABLE):
        traceback.print_exc()
    click.echo(
        f"collie: unforeseen {type(error).__name__}: {sanitized(str(error))}\n"
        f"This is a fault of Collie; {_DEBUG_VARIABLE}=1 shows where. Campaigns are kept and can be resumed.",
        err=True,
    )
    return 3  # 1 would mean that a command found something bad
