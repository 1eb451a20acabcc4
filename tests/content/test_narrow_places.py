"""What no line of Collie does, as docs/explanation/security.md promises: the source is read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "collie"
SOURCES = {
    path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
    for path in PACKAGE.rglob("*.py")
    if "testing" not in path.relative_to(PACKAGE).parts
}
TREES = {name: ast.parse(text) for name, text in SOURCES.items()}


def _called(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names of all that is called; of what is no name, `?`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            words, function = [], node.func
            while isinstance(function, ast.Attribute):
                words.append(function.attr)
                function = function.value
            words.append(function.id if isinstance(function, ast.Name) else "?")
            yield ".".join(reversed(words))


CALLS = {name: set(_called(tree)) for name, tree in TREES.items()}


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).split(".")[0]


def who_calls(*names: str) -> set[str]:
    return {name for name, called in CALLS.items() if {each.split(".")[-1] for each in called} & set(names)}


def who_imports(*names: str) -> set[str]:
    return {name for name, tree in TREES.items() if set(names) & set(imported(tree))}


def test_the_source_is_found() -> None:
    assert len(SOURCES) > 300
    assert "cli/main.py" in who_imports("click")
    assert "cli/main.py" in who_calls("exit")


def test_no_text_becomes_code() -> None:
    assert who_imports("pickle", "marshal", "shelve", "dill", "cloudpickle", "code") == set()
    assert who_calls("eval", "unsafe_load", "full_load") == set()
    assert who_calls("exec") == {"cli/main.py"}
    assert SOURCES["cli/main.py"].count("exec(") == SOURCES["cli/main.py"].count('exec("")') == 1, "of no text at all"


def test_no_shell_runs_what_is_put_together_here() -> None:
    assert who_calls("system", "popen", "getoutput", "getstatusoutput") == set()
    assert not [name for name, text in SOURCES.items() if "shell=True" in text]


def test_untrusted_data_goes_through_few_places() -> None:
    assert who_imports("yaml") == {"content/document.py"}
    reads = {name for name, called in CALLS.items() if {"json.load", "json.loads"} & called}
    of_strangers = {"untrusted.py", "bundle/archive.py", "agent/requests.py"}
    of_its_own = {
        "agent/child.py",
        "agent/engine.py",  # what one process of the agent says to the other
        "bundle/controller.py",  # the archive that it is itself
        "content/prototype.py",  # what it has just written
        "lab/bringup.py",
        "lab/spec.py",
    }
    assert reads == of_strangers | of_its_own


def test_nothing_listens_but_an_agent_for_rdma_cm() -> None:
    assert who_calls("listen", "create_server", "start_server", "serve_forever") == {"agent/resources.py"}
    assert who_imports("socketserver", "http", "asyncio", "xmlrpc") == set()
    assert who_calls("bind") == {"lab/bringup.py"}, "which looks for a free port of loopback"


def test_endpoints_are_relayed_over_ssh_alone() -> None:
    # The SSH agent is asked over a socket of this machine.
    assert who_calls("sendto", "sendall", "sendmsg") == {"ssh/ssh_agent.py"}
    ends = {
        name for name in who_calls("socket", "create_connection") if name.startswith(("hosts/", "agent/", "bundle/"))
    }
    kernels = {"agent/ethtool.py", "agent/netlink.py"}
    assert ends == kernels, "a socket to the own kernel each"


def test_no_password_is_asked_for_or_passed_on() -> None:
    assert who_calls("getpass", "prompt", "askpass") == set()
    words = {keyword.arg for tree in TREES.values() for keyword in ast.walk(tree) if isinstance(keyword, ast.keyword)}
    assert not words & {"password", "passphrase", "hide_input"}


def test_no_key_of_a_host_is_added_and_no_agent_forwarded() -> None:
    assert who_calls("AutoAddPolicy", "WarningPolicy", "save_host_keys", "AgentRequestHandler") == set()
    assert who_calls("request_forward_agent", "forward_agent") == set()


def test_no_scheduler_and_no_worker_is_started() -> None:
    assert who_calls("LocalCluster", "Scheduler", "Worker", "Nanny", "SSHCluster") == set()


def test_deadlines_go_by_the_monotonic_clock() -> None:
    by_day = {name for name, called in CALLS.items() if {"time.time", "time.time_ns"} & called}
    assert by_day == set()
    now = {name for name, called in CALLS.items() if "datetime.now" in called}
    assert now <= {
        "cli/search.py",
        "cli/gate.py",
        "report/html.py",
        "store/heartbeat.py",
        "clock.py",
        "app/status.py",
    }, "stamps of records, names of directories, and how old the stamp of another process is"
