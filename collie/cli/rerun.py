"""Options of commands that run workloads outside of a search: measure, diagnose, sweep, perftest, reproduce."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import click

from collie.app.testbeds import require_subsystem
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.cli.complete import content, dimensions
from collie.cli.options import Decorator, changed_testbed, noise_seed_option, run_options, safety_limits, together
from collie.content.locate import ContentKind
from collie.workloads.narrowing import parse_fixes

perftest_option = click.option(
    "--perftest", "line", metavar="LINE", help="A perftest command line in place of a workload."
)
perftest_lines_option = click.option(
    "--perftest", "lines", multiple=True, metavar="LINE", help="A perftest command line. Repeatable."
)

fixes_option = click.option(
    "--fix",
    "fixes",
    multiple=True,
    metavar="DIM=VALUE",
    help="Change a value of that workload.",
    shell_complete=dimensions("="),
)


def fixed_values(words: Iterable[str]) -> dict[str, Any]:
    """Parse `--fix`. `message_bytes` fixes the size of all messages, as on an axis of a sweep."""
    return parse_fixes(word.replace("message_bytes=", "messages=", 1) for word in words)


def rerun_options(gives: str = "the plain values", default: str = "as in search") -> Decorator:
    """Return the options that `rerun_choice` reads. `gives` is what the space is for."""
    return together(
        click.option(
            "--space",
            metavar="NAME|FILE",
            help=f"Gives {gives}.  [default: {default}]",
            shell_complete=content(ContentKind.SPACE),
        ),
        click.option(
            "--recipe",
            metavar="NAME|FILE",
            help=f"Gives the thresholds.  [default: {default}]",
            shell_complete=content(ContentKind.RECIPE),
        ),
        noise_seed_option,
        run_options,
    )


def rerun_testbed(then: TestbedChoice, ctx: click.Context) -> TestbedChoice:
    """Return an earlier testbed with the changes of the command line."""
    testbed = changed_testbed(then, ctx)
    if testbed.subsystem == then.subsystem:
        require_subsystem(testbed)
    return testbed


def rerun_choice(then: SearchChoice, ctx: click.Context) -> SearchChoice:
    """Return an earlier search with the changes of the command line."""
    options, testbed = ctx.params, rerun_testbed(then.testbed, ctx)
    if (testbed.hosts, testbed.subsystem) != (then.testbed.hosts, then.testbed.subsystem):
        then = dataclasses.replace(then, capabilities=None, terms=None)  # these describe other hosts
    return dataclasses.replace(
        then,
        testbed=testbed,
        space=options["space"] or then.space,
        recipe=options["recipe"] or then.recipe,
        seed=options["seed"],
        safety=safety_limits(options),
        shared_port=options["shared_port"],
    )
