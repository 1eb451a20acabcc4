"""Every command explains itself: its help has an example, and the example is right."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import get_completion_class

from collie.cli import complete
from collie.cli.main import cli
from collie.content.locate import ContentKind


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, name
            yield from leaves(child, (*path, name))
    else:
        yield path, command


LEAVES = dict(leaves(cli))


def help_of(path: tuple[str, ...]) -> str:
    context = click.Context(
        LEAVES[path], info_name=" ".join(("collie", *path)), max_content_width=200, terminal_width=200
    )
    return LEAVES[path].get_help(context)


def examples(text: str) -> list[list[str]]:
    """Return the command lines of a help text without `collie`, comments and what follows a pipe."""
    lines = re.findall(
        r"^\s*(?:Example: )?(?:\w+ )?(?:eval \"\$\()?collie ((?!\[OPTIONS).*)$", text.replace("\\\n", " "), re.MULTILINE
    )
    words = (shlex.split(re.split(r" [|>] |\)\"|  +", line)[0], comments=True) for line in lines)
    return list(words)


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_has_an_example_that_parses(path: tuple[str, ...]) -> None:
    text = help_of(path)
    assert "\\b" not in text, "a raw docstring hides the backspace that keeps click from wrapping the examples"
    found = [words[len(path) :] for words in examples(text.split("\n", 1)[1]) if tuple(words[: len(path)]) == path]
    assert found, f"the help of `collie {' '.join(path)}` shows no example of it"
    for words in found:
        LEAVES[path].make_context(" ".join(path), list(words))


def test_every_exit_code_is_in_the_help() -> None:
    text = cli.get_help(click.Context(cli))
    for code in (0, 1, 2, 3, 4, 5, 130):
        assert re.search(rf"^ +{code}  ", text, re.MULTILINE), code


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_be_made_to_complete(shell: str) -> None:
    kind = get_completion_class(shell)
    assert kind is not None
    completion = kind(cli, {}, "collie", "_COLLIE_COMPLETE")
    offered = {item.value for item in completion.get_completions(["search", "--space"], "nsd")}
    assert offered == {"nsdi22"}
    assert {"search", "status"} <= {item.value for item in completion.get_completions([], "s")}


def values(found: list[click.shell_completion.CompletionItem]) -> list[str]:
    return [item.value for item in found]


def test_campaigns_and_their_anomalies_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("campaigns/one", "campaigns/two", "elsewhere"):
        (tmp_path / name / "anomalies" / "a1").mkdir(parents=True)
        (tmp_path / name / "campaign.sqlite").touch()
    (tmp_path / "campaigns" / "empty").mkdir()
    context, parameter = click.Context(cli), click.Argument(["campaign"])
    assert values(complete.campaigns(context, parameter, "")) == ["campaigns/one", "campaigns/two", "elsewhere"]
    assert values(complete.campaigns(context, parameter, "campaigns/t")) == ["campaigns/two"]
    assert values(complete.anomalies(context, parameter, "elsewhere/")) == ["elsewhere/a1"]
    assert values(complete.anomalies(context, parameter, "nsdi22-0"))[:2] == ["nsdi22-01", "nsdi22-02"]
    assert "nsdi22" in values(complete.known(context, parameter, "n"))
    assert complete.content(ContentKind.RECIPE)(context, parameter, "./my")[0].type == "file"
    assert values(complete.campaigns(context, parameter, "no/such/place/"))[-1] == "no/such/place/"
    monkeypatch.setenv("COLLIE_CONTENT", "mistyped")
    assert complete.content(ContentKind.RECIPE)(context, parameter, "r")[0].type == "file"


@pytest.mark.parametrize(
    ("words", "typed", "offered"),
    [
        (["search", "--fix"], "qp", {"qp_errors_per_second=", "qp_type=", "qps="}),
        (["search", "--limit"], "mt", {"mtu<="}),
        (["search", "--set"], "ac", {"acs="}),
        (["search", "--set"], "acs=", {"acs=enabled", "acs=disabled"}),
        (["search", "--subsystem", "F-healthy", "--set"], "no", set()),
        (["fleet", "--fault"], "host-1=wrong", {"host-1=wrong_mtu"}),
        (["fleet", "--fault"], "host-1", set()),
        (["sweep", "--x"], "message", {"messages=", "message_bytes="}),
        (["subsystem", "map", "--y"], "message_b", {"message_bytes"}),
    ],
)
def test_names_inside_an_options_value_are_completed(words: list[str], typed: str, offered: set[str]) -> None:
    kind = get_completion_class("bash")
    assert kind is not None
    completion = kind(cli, {}, "collie", "_COLLIE_COMPLETE")
    assert {item.value for item in completion.get_completions(words, typed)} == offered


def test_last_is_completed_beside_the_campaigns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kind = get_completion_class("bash")
    assert kind is not None
    completion = kind(cli, {}, "collie", "_COLLIE_COMPLETE")
    assert completion.get_completions(["status"], "la")[0].value == "last"


def _word_for(option: click.Option) -> str:
    """Return a value that an option takes, whatever else its command says about it."""
    return str(option.type.choices[0]) if isinstance(option.type, click.Choice) else "1"


SINGLE = [
    pytest.param(path, option, id=f"{' '.join(path)} {option.opts[0]}")
    for path, command in LEAVES.items()
    for option in command.params
    if isinstance(option, click.Option) and not (option.multiple or option.is_flag or option.is_eager)
]


@pytest.mark.parametrize(("path", "option"), SINGLE)
def test_an_option_of_one_value_is_refused_when_it_is_given_twice(path: tuple[str, ...], option: click.Option) -> None:
    words = [option.opts[0], _word_for(option)]
    required = ["x" for each in LEAVES[path].params if isinstance(each, click.Argument) and each.required]
    with pytest.raises(click.UsageError, match="2 times but takes one value; give it once"):
        LEAVES[path].make_context(" ".join(path), [*required, *words, *words])


def test_there_are_options_of_one_value_and_of_several() -> None:
    options = [each for command in LEAVES.values() for each in command.params if isinstance(each, click.Option)]
    assert len(SINGLE) > 80
    assert sum(option.multiple for option in options) > 5


def test_words_for_another_program_may_repeat() -> None:
    LEAVES["lab", "ssh"].make_context("lab ssh", ["lab-a", "--", "ls", "-l", "-l"])


def test_help_imports_no_scipy() -> None:
    """It takes about a second to import, so only what computes with it does."""
    commands = [["--help"], *([*path, "--help"] for path in LEAVES)]
    script = f"""
import sys
from collie.cli.main import run
codes = {{run(words) for words in {commands!r}}}
sys.exit(codes != {{0}} or sum(name.partition(".")[0] == "scipy" for name in sys.modules))
"""
    subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL, timeout=120, check=True)
