"""Options that several commands share, and output. A wrong option raises `UsageError`."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import click
from click.core import ParameterSource

from collie.campaign.choice import DEFAULT_SUBSYSTEM, TestbedChoice
from collie.campaign.hardships import EVERY_MECHANISM, MAX_DRIFT, Hardships, Outliers
from collie.campaign.safety import SafetyRecord
from collie.cli import complete
from collie.cli.complete import LAST, content, inventories
from collie.content.locate import ContentKind
from collie.errors import UsageError
from collie.files import open_output, require_output
from collie.inventory.safety import SafetyLimits
from collie.ports import CAMPAIGN_FILE
from collie.report.ci.prometheus import SUFFIX
from collie.workloads.units import parse_rate, parse_seconds

F = TypeVar("F", bound=Callable[..., Any])


class Finite(click.FloatRange):
    """A range of finite numbers. click's own ranges accept `nan`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


CHANCE = Finite(1e-9, 1.0, max_open=True)
"""The chance of a false alarm. Zero would need an infinite bar."""


class Decorator(Protocol):
    """Adds options to a command."""

    def __call__(self, command: F, /) -> F:
        """Return the command with the options."""


def together(*options: Decorator) -> Decorator:
    """Return a decorator that adds options in the order of the help."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


format_option = click.option(
    "--format", "output", type=click.Choice(["text", "json"]), default="text", help="Output on stdout."
)

noise_seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the simulated noise."
)

testbed_options = together(
    click.option(
        "--hosts", metavar="FILE", help="Inventory of real hosts. `lab` is the lab's.", shell_complete=inventories
    ),
    click.option(
        "--subsystem",
        metavar="NAME|FILE",
        help="Simulated subsystem.  [default: F, or that of a named anomaly]",
        shell_complete=content(ContentKind.SUBSYSTEM),
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change a subsystem's setting.",
        shell_complete=complete.settings,
    ),
    click.option(
        "--noise", type=Finite(min=0, max=100), help="Noise of the simulated testbed; 0 disables it.  [default: 1]"
    ),
    click.option(
        "--flaky",
        multiple=True,
        metavar="MECHANISM=SHARE",
        help=f"Simulator only: a mechanism, or `{EVERY_MECHANISM}`, shows in this share of the runs.",
    ),
    click.option(
        "--outliers",
        metavar="SHARE:PAUSE",
        help="Simulator only: in this share of the runs, such as 1/30, a host sends pause for this share of the time.",
    ),
    click.option(
        "--drift",
        type=Finite(0, MAX_DRIFT),
        help="Simulator only: throughput falls by this share over 10 h.  [default: 0]",
    ),
    format_option,
)
TESTBED_PARAMETERS = frozenset({"hosts", "subsystem", "settings", "noise", "flaky", "outliers", "drift"})

safety_options = together(
    click.option(
        "--max-pause-per-second",
        metavar="TIME",
        help="Stop a run in which a host sends more pause within a second.  [real hosts: 200ms]",
    ),
    click.option(
        "--max-pause",
        metavar="TIME",
        help="End when hosts have sent pause for this long in total.  [real hosts: 2m]",
    ),
    click.option(
        "--max-rate",
        metavar="RATE",
        help="Stop a run in which a host receives or sends more payload, such as 50Gbit/s.",
    ),
    click.option("--shared-port", is_flag=True, help="Run although another process uses a port under test."),
)
SAFETY_PARAMETERS = frozenset({"max_pause_per_second", "max_pause", "max_rate", "shared_port"})

victim_load_option = click.option(
    "--victim-load",
    metavar="RATE",
    help="Have the plain flow offer this load, such as 10Gbit/s. Its latency then counts, too. Implies --victim.",
)

run_options = together(
    safety_options,
    click.option("--verify", is_flag=True, help="On real hosts, compare received with sent payload."),
    click.option("--victim", is_flag=True, help="Run a plain flow beside every workload and report its loss."),
    victim_load_option,
    testbed_options,
)

narrowing_options = together(
    click.option(
        "--fix",
        "fixes",
        multiple=True,
        metavar="DIM=VALUE",
        help="Fix a dimension.",
        shell_complete=complete.dimensions("="),
    ),
    click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="DIM<=VALUE",
        help="Limit an ordered dimension. DIM>=VALUE limits it from below.",
        shell_complete=complete.dimensions("<="),
    ),
)

space_options = together(
    click.option(
        "--space",
        metavar="NAME|FILE",
        help="Space of workloads, or an application.  [default: nsdi22; soft-roce for devices rxe*]",
        shell_complete=content(ContentKind.SPACE),
    ),
    narrowing_options,
)


def testbed_choice(options: Mapping[str, Any]) -> TestbedChoice:
    """Return the testbed of `testbed_options`."""
    if options["hosts"] and options["subsystem"]:
        raise UsageError("--hosts names real hosts and --subsystem a simulated one; give one of them")
    victim_bps = _victim_bps(options.get("victim_load"))
    return TestbedChoice(
        options["hosts"],
        options["subsystem"] or DEFAULT_SUBSYSTEM,
        parse_settings(options["settings"]),
        _noise(options["hosts"], options["noise"]),
        options.get("verify", False),
        options.get("victim", False) or victim_bps > 0,
        _hardships(options["hosts"], options),
        victim_bps,
    )


def changed_testbed(given: TestbedChoice, ctx: click.Context) -> TestbedChoice:
    """Return a testbed with the changes of the command line."""
    named = {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    chosen = testbed_choice(ctx.params)
    changes: dict[str, Any] = {name: getattr(chosen, name) for name in ("verify", "victim") if name in named}
    if "victim_load" in named:
        changes |= {name: getattr(chosen, name) for name in ("victim", "victim_bps")}
    if named & {"hosts", "subsystem"}:  # settings belong to one subsystem
        changes |= {name: getattr(chosen, name) for name in ("hosts", "subsystem", "settings")}
    elif "settings" in named:
        changes["settings"] = {**given.settings, **chosen.settings}
    if "noise" in named:
        changes["noise"] = _noise(changes.get("hosts", given.hosts), chosen.noise)
    if hard := {name: getattr(chosen.hardships, name) for name in _HARDSHIPS if name in named}:
        _hardships(changes.get("hosts", given.hosts), ctx.params)
        changes["hardships"] = dataclasses.replace(given.hardships, **hard)
    return dataclasses.replace(given, **changes)


def _noise(hosts: str | None, noise: float | None) -> float:
    if noise is None:
        return TestbedChoice.noise
    if hosts:
        raise UsageError("--noise is for a simulated subsystem; real hosts have real noise")
    return noise


_HARDSHIPS = ("flaky", "outliers", "drift")


def _hardships(hosts: str | None, options: Mapping[str, Any]) -> Hardships:
    given = [name for name in _HARDSHIPS if options[name] not in (None, ())]
    if hosts and given:
        raise UsageError(f"--{given[0]} is for a simulated subsystem; leave it out with --hosts")
    return Hardships(_show_rates(options["flaky"]), _outliers(options["outliers"]), options["drift"] or 0.0)


def _show_rates(words: Iterable[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for word in words:
        name, _, text = map(str.strip, word.partition("="))
        share = _share(text)
        if not name or share is None:
            raise UsageError(f"--flaky {word!r} is not MECHANISM=SHARE, with a share from 0 to 1 such as 0.6 or 3/5")
        if name in found:
            raise UsageError(f"--flaky {word!r}: {name} has another share already")
        found[name] = share
    return found


def _outliers(word: str | None) -> Outliers | None:
    if word is None:
        return None
    share, pause = map(_share, word.partition(":")[::2])
    if share is None or pause is None:
        raise UsageError(f"--outliers {word!r} is not SHARE:PAUSE, two shares from 0 to 1 such as 1/30:0.02")
    return Outliers(share, pause) if share and pause else None


def _victim_bps(text: str | None) -> int:
    try:
        bps = 0 if text is None else round(parse_rate(text))
    except ValueError as error:
        raise UsageError(f"--victim-load: {error}") from None
    if text is not None and bps < 1:
        raise UsageError(f"--victim-load {text} is no load; give more than 0, or leave it out for a full send queue")
    return bps


def _share(text: str) -> float | None:
    numerator, sign, denominator = text.partition("/")
    with suppress(ValueError, ZeroDivisionError):
        share = float(numerator) / (float(denominator) if sign else 1.0)
        return share if 0.0 <= share <= 1.0 else None
    return None


def safety_limits(options: Mapping[str, Any]) -> SafetyLimits:
    """Return the limits of `safety_options`."""
    return SafetyLimits(
        _limit(options, "max_pause_per_second", parse_seconds),
        _limit(options, "max_pause", parse_seconds),
        _limit(options, "max_rate", parse_rate),
    )


def _limit(options: Mapping[str, Any], name: str, parse: Callable[[str], float]) -> float | None:
    text = options[name]
    if text is None:
        return None
    flag = f"--{name.replace('_', '-')}"
    try:
        value = parse(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
    if value <= 0:
        raise UsageError(f"{flag} {text} would stop every run; give more than 0")
    return value


def print_safety(record: SafetyRecord | None, side: str | None = None) -> bool:
    """Print the effects on the network, of one `side` in a gate. Return whether queue pairs are left behind."""
    if record is None:
        return False
    click.echo(f"{side}: {record}" if side else record, err=True)
    if record.left_behind:
        click.echo(
            "collie: queue pairs are left; list them with `rdma resource show qp` and end their processes", err=True
        )
    return record.left_behind


def parse_settings(pairs: Iterable[str]) -> dict[str, str]:
    """Parse `KEY=VALUE` words."""
    found = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise UsageError(f"--set {pair!r} is not KEY=VALUE")
        if key.strip() in found:
            raise UsageError(f"--set {pair!r}: {key.strip()} has another value already")
        found[key.strip()] = value.strip()
    return found


def print_json(value: Mapping[str, Any]) -> None:
    """Print the JSON object of a command."""
    click.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def textfile(path: str | None) -> Path | None:
    """Return the path of `--prometheus`, or None."""
    if path is None:
        return None
    if not path.endswith(SUFFIX):
        raise UsageError(f"--prometheus {path}: node_exporter reads only files whose names end in {SUFFIX}")
    _require_folder("--prometheus", Path(path))
    return Path(path)


def given_options(ctx: click.Context, parameters: Collection[str]) -> list[str]:
    """Return the options of the command line that set one of the parameters."""
    given = [option for option in ctx.command.params if option.name in parameters]
    return [each.opts[0] for each in given if ctx.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE]


def refuse_fixed(ctx: click.Context, free: Collection[str]) -> None:
    """Refuse options that a resumed campaign cannot change: all but the parameters in `free`."""
    if given := given_options(ctx, ctx.params.keys() - free):
        raise UsageError(f"--resume uses the options that the campaign began with; leave out {', '.join(given)}")


def go_on(command: str, directory: Path, scheduler: object = None) -> str:
    """Return the shell command that resumes a campaign."""
    words = ["--scheduler", str(scheduler)] if scheduler else []
    return shlex.join(["collie", command, "--resume", str(directory), *words])


def require_writable(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written, before hours of work are lost. No directory is made."""
    if path is None:
        return
    if str(path) == "-":
        raise UsageError(f"{option} - is no file; name /dev/stdout for standard output")
    _require_folder(option, path)
    if os.path.isdir(path):
        raise UsageError(f"{option} {path} is a directory; name a file")
    try:
        require_output(path)
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be written: {error.strerror}") from None
    if not os.access(path if os.path.exists(path) else path.parent, os.W_OK):
        raise UsageError(f"{option} {path} cannot be written: no permission, or a read-only file system")


def _require_folder(option: str, path: Path) -> None:
    if not os.path.isdir(path.parent):
        raise UsageError(f"{option} {path} cannot be written: there is no directory {path.parent}")


@contextmanager
def output_file(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Open a file to write it."""
    try:
        with os.fdopen(open_output(path, mode), "wb") as file:
            if mode == 0o600 and path.is_file():  # an existing file may be readable by others
                with suppress(PermissionError):  # another user owns it and decides who reads it
                    os.fchmod(file.fileno(), mode)
            yield file
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def existing_campaign(path: str) -> Path:
    """Return a campaign's directory."""
    directory = Path(path)
    if path == LAST and not os.path.lexists(directory):
        raise UsageError("there is no campaign below this folder that `last` could mean; name its directory")
    if not os.path.lexists(directory / CAMPAIGN_FILE):  # the store reports a path that is no regular file
        raise UsageError(f"{path} holds no campaign (no {CAMPAIGN_FILE} in it)")
    return directory
