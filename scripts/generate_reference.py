"""Write docs/reference/*.md from the program: commands from click, content fields from the models that read them.

Usage: scripts/reference [--check]; --check writes nothing, and exits 1 when a page is not up to date.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import click
from pydantic import BaseModel

from collie import errors
from collie.cli.main import EXIT_CODES, cli
from collie.content import anomalies, applications, catalogs, dimensions, recipes, spaces
from collie.counters.catalog import Counter, Ignored
from collie.detect.confirm import Confirmation
from collie.detect.judge import Thresholds
from collie.inventory import file, hosts
from collie.search.recipe import Bayesian, Extraction, Guide, Recipe, Schedule
from collie.simulator.subsystem import SubsystemFile
from collie.workloads.application import Application
from collie.workloads.constraint import Limits
from collie.workloads.feature import DERIVED, Condition
from collie.workloads.reference import ReferenceAnomaly
from collie.workloads.workload import Workload

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
MADE = "<!-- Written by scripts/reference; edit the program, not this page. -->"
_LARGEST_SHOWN = 1e6  # larger limits only keep typing errors out


def pages() -> dict[str, str]:
    """Return every page by its file name."""
    return {
        "commands.md": _page("Commands", _commands()),
        "content.md": _page("Content files: every field", _content()),
        "exit-codes.md": _page("Exit codes", _exit_codes()),
    }


def main(argv: list[str]) -> int:
    """Write the pages, or compare them."""
    made = pages()
    stale = [name for name, text in made.items() if not _holds(FOLDER / name, text)]
    if "--check" in argv:
        for name in stale:
            print(f"docs/reference/{name} is not up to date: run scripts/reference", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(made[name], encoding="utf-8")
    return 0


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def _page(title: str, blocks: Iterator[str]) -> str:
    return "\n\n".join([f"# {title}", MADE, *blocks]) + "\n"


# --- Commands ---------------------------------------------------------------------------------------------------------


def leaves(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that can be run, with the words that call it."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (child := command.get_command(context, name)) is not None:
                yield from leaves(child, (*path, name))
    else:
        yield " ".join(path), command


def _commands() -> Iterator[str]:
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
            limits = {"minimum": option.type.min, "maximum": option.type.max}
            return f"N {', '.join(_limits({key: value for key, value in limits.items() if value is not None}))}".strip()
    return option.metavar or ("N" if option.type in (click.INT, click.FLOAT) else "TEXT")


def _meaning(option: click.Option) -> str:
    text = " ".join((option.help or "").split()).replace("|", "\\|")
    return f"{text} [default: {option.default}]" if option.show_default else text


def _summary(command: click.Command) -> str:
    return command.get_short_help_str(limit=200)


# --- Exit codes -------------------------------------------------------------------------------------------------------


def _exit_codes() -> Iterator[str]:
    yield "The same for every command."
    flat = re.sub(r"\n {5,}(?=\S)", " ", EXIT_CODES)
    rows = re.findall(r"^ +(\d+) +(.*)$", flat, re.MULTILINE)
    yield "\n".join(["| code | meaning |", "|---|---|", *(f"| {code} | {meaning} |" for code, meaning in rows)])
    yield "## Situations that end a command"
    yield "Each is one message on standard error that says what is wrong, where, and what to do."
    shared = (kind for kind in _descendants(errors.CollieError) if kind.__module__ == errors.__name__)
    kinds = sorted(shared, key=lambda kind: (kind.exit_code, kind.__name__))
    rows = [(kind.__name__, str(kind.exit_code), _first_line(kind)) for kind in kinds]
    yield "\n".join(
        ["| situation | code | meaning |", "|---|---|---|", *(f"| `{n}` | {c} | {t} |" for n, c, t in rows)]
    )


def _descendants(kind: type[errors.CollieError]) -> Iterator[type[errors.CollieError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _descendants(below)


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").split("\n", 1)[0]


# --- Content ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """A table of fields.

    Attributes:
        title: of the section.
        model: reads it.
        described_by: a class of the program whose docstring says what the fields of the same names mean.
        intro: what comes before the table.
    """

    title: str
    model: type[BaseModel]
    described_by: type | None = None
    intro: str = ""


_FILES: Mapping[str, tuple[Section, ...]] = {
    "Space: `workloads/spaces/NAME.yaml`": (
        Section("", spaces._SpaceFile),
        Section("limits", spaces._LimitsFile, Limits),
        Section("dimensions.NAME", dimensions._DimensionFile, None, "NAME is a [field of a workload](#workload)."),
    ),
    "Anomaly: `workloads/anomalies/COLLECTION-NN.yaml`": (
        Section("", anomalies._AnomalyFile, ReferenceAnomaly),
        Section("conditions[]", anomalies._ConditionFile, Condition),
        Section("severity", anomalies._SeverityFile),
        Section("fix", anomalies._FixFile),
    ),
    "Application: `workloads/applications/NAME.yaml`": (
        Section("", applications._ApplicationFile, Application),
        Section(
            "traffic.NAME.DIMENSION", applications._ReachFile, None, "Or one value, or `any` for all of the space."
        ),
    ),
    "Recipe: `search/recipes/NAME.yaml`": (
        Section("", recipes._RecipeFile, Recipe),
        Section("schedule", recipes._ScheduleFile, Schedule),
        Section("thresholds", recipes._ThresholdsFile, Thresholds),
        Section("confirmation", recipes._ConfirmationFile, Confirmation),
        Section("extraction", recipes._ExtractionFile, Extraction),
        Section("guide", recipes._GuideFile, Guide),
        Section("bayesian", recipes._BayesianFile, Bayesian),
    ),
    "Counter catalog: `counters/DRIVER/catalog.yaml`": (
        Section("", catalogs._CatalogFile),
        Section("counters[]", catalogs._CounterFile, Counter),
        Section("ignored[]", catalogs._IgnoredFile, Ignored),
    ),
    "Inventory: a hosts file": (
        Section("", file.InventoryFile),
        Section("hosts.NAME", file.HostEntry, hosts.Host),
        Section("hosts.NAME.specification", file.SpecificationEntry, hosts.HostSpecification),
        Section("safety", file.SafetyEntry),
    ),
}


def _content() -> Iterator[str]:
    yield (
        "Fields in the order of the program, from the models that read them. [`content.md`](../content.md) explains "
        "the formats with examples; [`hosts.example.yaml`](../../hosts.example.yaml) every line of an inventory. Sizes "
        "take `4KiB`, rates `200Gbit`, times `10s`. A field without a default has to be there."
    )
    yield "## Workload"
    yield f"Any path; also `trigger` of an anomaly. Derived features for conditions: {_listed(DERIVED)}."
    meanings = _attributes(Workload)
    kinds = get_type_hints(Workload)
    rows = (
        _row(each.name, _words(kinds[each.name]), _default(each.default), meanings[each.name])
        for each in fields(Workload)
    )
    yield _table(rows)
    for title, sections in _FILES.items():
        yield f"## {title}"
        for section in sections:
            yield from _section(section)
    yield "## Subsystem: `collie/simulator/subsystems/NAME.yaml`"
    yield (
        "[`subsystems.md`](../subsystems.md) explains the format, and `based_on` and `without`; "
        "[`simulator.md`](../simulator.md) has the equations."
    )
    yield from _subsystem(SubsystemFile, "")


def _subsystem(model: type[BaseModel], title: str) -> Iterator[str]:
    yield from _section(Section(title, model))
    for name, info in model.model_fields.items():
        for part in _models(info.annotation):
            where = f"{title}.{name}".strip(".")
            yield from _subsystem(part, f"{where}[]" if "tuple" in str(info.annotation) else where)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models(inner)


def _section(section: Section) -> Iterator[str]:
    if section.title:
        yield f"### `{section.title}`"
    if section.intro:
        yield section.intro
    schema = section.model.model_json_schema(mode="validation")
    own = {name: text for kind in reversed(section.model.__mro__) for name, text in _below_fields(kind).items()}
    meanings = {**(_attributes(section.described_by) if section.described_by else {}), **own}
    rows = []
    for name, described in schema.get("properties", {}).items():
        default = "" if name in schema.get("required", ()) else _default(described.get("default"))
        meaning = described.get("description") or meanings.get(name) or _of_model(described, schema)
        if not meaning:
            raise SystemExit(f"{section.model.__qualname__}.{name} says nowhere what it means; write a text below it")
        rows.append(_row(name, _type(described, schema.get("$defs", {})), default, meaning))
    yield _table(iter(rows))


def _of_model(described: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return what a model that stands in a field says of itself."""
    inner = described.get("items") or described.get("additionalProperties") or described
    reference = inner.get("$ref", "").rsplit("/", 1)[-1] if isinstance(inner, dict) else ""
    return str(schema.get("$defs", {}).get(reference, {}).get("description", "")).split("\n", 1)[0]


def _type(described: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    """Say in words what may stand there."""
    if "$ref" in described:
        target = models[described["$ref"].rsplit("/", 1)[-1]]
        return _type(target, models) if "enum" in target else "keys and values"
    if "allOf" in described:
        return _type(described["allOf"][0], models)
    if "anyOf" in described:
        kinds = dict.fromkeys(_type(each, models) for each in described["anyOf"] if each.get("type") != "null")
        return " or ".join(kinds)
    if "const" in described:
        return f"`{described['const']}`"
    if "enum" in described:
        return _listed(str(value) for value in described["enum"] if value != "")
    kind = described.get("type")
    if kind == "array":
        inner = described.get("items") or next(iter(described.get("prefixItems", ())), {})
        return f"list of {_type(inner, models)}" if inner else "list"
    if kind == "object":
        return "keys and values"
    word = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}.get(
        kind, "any"
    )
    return f"{word} {', '.join(_limits(described))}".strip()


def _limits(described: Mapping[str, Any]) -> Iterator[str]:
    for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")):
        if key in described and described[key] <= _LARGEST_SHOWN:
            yield f"{sign} {described[key]:g}"


def _attributes(kind: type) -> dict[str, str]:
    """Return what the `Attributes:` of a docstring say, by name; `a, b: text` says it of both."""
    text = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    lines = re.split(r"\n(?! |\n)", text, maxsplit=1)[0]
    found: dict[str, str] = {}
    for match in re.finditer(r"^    (\w+(?:, \w+)*): ((?:.*\n?)(?:^ {8,}.*\n?)*)", lines, re.MULTILINE):
        for name in match[1].split(", "):
            found[name] = " ".join(match[2].split())
    return found


def _below_fields(kind: type) -> dict[str, str]:
    """Return the texts that stand below the fields of a class."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError):
        return {}
    statements = getattr(body, "body", [])
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(statements)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _words(annotation: Any) -> str:
    """Say in words what a field of a dataclass holds."""
    arguments = [each for each in get_args(annotation) if each is not Ellipsis]
    if get_origin(annotation) is tuple:
        return f"list of {_words(arguments[0])}"
    if arguments:
        return " or ".join(map(_words, arguments))
    if issubclass(annotation, StrEnum):
        return _listed(annotation)
    return {bool: "true or false", int: "whole number", str: "text"}[annotation]


def _default(value: Any) -> str:
    if value in (None, "", {}, [], ()):
        return "none"
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case float():
            return f"`{value:g}`"
        case list() | tuple():
            return f"`[{', '.join(str(getattr(item, 'value', item)) for item in value)}]`"
        case dict():
            return "see below"
    return f"`{getattr(value, 'value', value)}`"


def _row(*cells: str) -> str:
    name, *others = cells
    *values, meaning = others
    return " | ".join((f"| `{name}`", *values, f"{meaning[:1].upper()}{meaning[1:]} |"))


def _table(rows: Iterator[str]) -> str:
    return "\n".join(["| field | value | default | meaning |", "|---|---|---|---|", *rows])


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
