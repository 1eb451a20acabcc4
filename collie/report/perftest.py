"""An anomaly as perftest commands."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from collie import __version__
from collie.inventory.hosts import Host
from collie.perftest.case import PerftestCase
from collie.perftest.command import Expression, PerftestCommand, PerftestDifference, PerftestPair
from collie.report.html.page import environment
from collie.report.json.objects import Json, plain
from collie.report.quantities import show
from collie.search.anomaly import NOT_BEGUN

FIRST_PORT = 18515
"""perftest's default port. Each further pair listens on the next port."""

SECONDS = 10


def render_commands(case: PerftestCase, hosts: Mapping[str, Host] | None = None) -> str:
    """Return shell lines with comments. `hosts` are by role. Without them, the lines contain variables."""
    lines = [f"# {line}" for line in _explanation(case)]
    if case.anomaly.is_faithful:
        lines += ["", "# GID: index of the RoCE v2 GID, see /sys/class/infiniband/DEVICE/ports/1/gid_attrs/types."]
        lines += [" ".join(f"{name}={value}" for name, value in row.items()) for row in _settings(case, hosts or {})]
        lines += [
            "",
            f"# The {'anomaly' if case.symptom else 'workload'}. All of it runs at the same time, servers first.",
        ]
        lines += _listed(case.anomaly.pairs)
        if case.is_plain:
            lines += ["", *(f"# {line}" for line in _without_sibling(case))]
        else:
            lines += ["", "# Its plain sibling: what these hosts deliver when nothing is wrong."]
            lines += _listed(case.sibling.pairs)
    return "\n".join(lines)


def render_script(case: PerftestCase, hosts: Mapping[str, Host] | None = None) -> str:
    """Return a shell script that runs the anomaly and its plain sibling over SSH and compares them.

    Plain traffic is its own sibling. Then the script runs it alone.
    """
    compared = {} if case.is_plain else {"sibling": _runs(case.sibling)}
    runs = {**compared, "anomaly": _runs(case.anomaly)}
    plain_text = environment().overlay(autoescape=False, keep_trailing_newline=True)
    return plain_text.get_template("perftest.sh.j2").render(
        version=__version__,
        explanation=[*_explanation(case), *_without_sibling(case)],
        settings=_settings(case, hosts or {}),
        required=[f"ADDRESS_{role.upper()}" for role in _contacted(case) if role not in (hosts or {})],
        destinations={role.upper(): _destination(hosts or {}, role) for role in _roles(case)},
        runs=runs,
        sinks={name: sorted({str(pair["sink"]) for pair in pairs} - {""}) for name, pairs in runs.items()},
        seconds=SECONDS,
        bytes=max(case.anomaly.runs.payloads),
        compares=not case.is_plain,
    )


def perftest_json(case: PerftestCase, hosts: Mapping[str, Host] | None = None) -> Json:
    """Return the commands as a JSON object."""
    expression = case.anomaly
    return {
        "expressible": expression.is_faithful,
        "lacks": plain(expression.lacks),
        "differs": plain(expression.differs),
        "requires": list(expression.requires),
        "settings": {name: value for row in _settings(case, hosts or {}) for name, value in row.items()},
        "commands": [_pair(number, pair) for number, pair in enumerate(expression.pairs)],
        "sibling": [] if case.is_plain else [_pair(number, pair) for number, pair in enumerate(case.sibling.pairs)],
    }


def command_line(command: PerftestCommand, number: int, seconds: str = str(SECONDS)) -> str:
    """Return a process as a shell command, with variables such as `$DEVICE_A`. Pair `number` decides the port."""
    role = command.role.upper()
    prefix = [f"numactl -N $NODE_{role} -m $NODE_{role}"] if command.numa_node else []
    here = f"-d $DEVICE_{role} -x $GID_{role} -p {FIRST_PORT + number}"
    address = "localhost" if _is_own(command) else f"$ADDRESS_{command.server.upper()}"
    server = [address] if command.server else []
    return " ".join(
        [*prefix, command.argv[0], here, shlex.join(command.argv[1:]), f"-D {seconds} -F --report_gbits", *server]
    )


def _is_own(client: PerftestCommand) -> bool:
    return client.server == client.role and "-R" not in client.argv


def _explanation(case: PerftestCase) -> Iterator[str]:
    expression, name = case.anomaly, " ".join(case.name.split())  # one line, for any file name
    if case.symptom is not None:
        when = f" when {case.mfs}" if case.explanation_begun else f", {NOT_BEGUN}"
        yield from textwrap.wrap(f"{name}: {case.symptom.words}{when}", 110)
    if expression.lacks:
        yield "perftest cannot run it:"
        yield from (f"  {_difference_text(each)}" for each in expression.lacks)
        yield f"`collie export {name} --as bundle` can: it brings its own traffic."
        return
    if expression.differs:
        yield f"What perftest runs otherwise{', which no condition of the anomaly names' if case.symptom else ''}:"
        yield from (f"  {_difference_text(each)}" for each in expression.differs)
    if expression.requires:
        yield f"Needs {'; '.join(expression.requires)}."


def _without_sibling(case: PerftestCase) -> Iterator[str]:
    """Yield why there is nothing to compare with, if there is nothing."""
    if case.is_plain:
        nothing = "no healthy plain sibling exists" if case.symptom else "there is no other one"
        yield f"This is plain traffic itself: {nothing} to compare with."


def _difference_text(difference: PerftestDifference) -> str:
    asked, runs = show(difference.field, difference.asked), show(difference.field, difference.runs)
    return f"{difference.field} {runs} instead of {asked}: {difference.reason}"


def _commands(case: PerftestCase) -> list[PerftestCommand]:
    pairs = [*case.anomaly.pairs, *case.sibling.pairs]
    return [command for pair in pairs for command in (pair.server, pair.client)]


def _roles(case: PerftestCase) -> list[str]:
    return sorted({command.role for command in _commands(case)})


def _contacted(case: PerftestCase) -> list[str]:
    return sorted({command.server for command in _commands(case) if command.server and not _is_own(command)})


def _settings(case: PerftestCase, hosts: Mapping[str, Host]) -> list[dict[str, str]]:
    far = {command.role for command in _commands(case) if command.numa_node}
    rows = []
    for role in _roles(case):
        host, upper = hosts.get(role), role.upper()
        row = {f"DEVICE_{upper}": host.device if host else "mlx5_0"}
        row[f"GID_{upper}"] = str(host.gid_index) if host and host.gid_index is not None else "3"
        if role in _contacted(case):
            row[f"ADDRESS_{upper}"] = host.data_address if host else f"host-{role}"
        if role in far:
            row[f"NODE_{upper}"] = "1"
        rows.append({name: shlex.quote(value) for name, value in row.items()})
    return rows


def _destination(hosts: Mapping[str, Host], role: str) -> str:
    host = hosts.get(role)
    if host is None:
        return ""
    who = f"{host.user}@{host.address}" if host.user else host.address
    return shlex.quote(f"ssh://{who}:{host.port}" if host.port else who)


def _listed(pairs: Sequence[PerftestPair]) -> Iterator[str]:
    for number, pair in enumerate(pairs):
        yield f"# on host {pair.server.role}:"
        yield command_line(pair.server, number)
    for number, pair in enumerate(pairs):
        yield f"# on host {pair.client.role}:"
        yield command_line(pair.client, number)


def _runs(expression: Expression) -> list[dict[str, str | int]]:
    # Loopback traffic crosses no port, so it is compared only if there is no other traffic.
    alone = all(pair.flow.is_loopback for pair in expression.pairs)
    return [
        {
            "number": number,
            "server": pair.server.role.upper(),
            "client": pair.client.role.upper(),
            "serve": command_line(pair.server, number, "$DURATION"),
            "request": command_line(pair.client, number, "$DURATION"),
            "sink": pair.flow.sink if alone or not pair.flow.is_loopback else "",
            "teller": "server" if pair.server.argv[0] == "ib_send_bw" else "client",
        }
        for number, pair in enumerate(expression.pairs)
    ]


def _pair(number: int, pair: PerftestPair) -> Json:
    def end(command: PerftestCommand) -> Json:
        return {"host": command.role, "command": command_line(command, number), "numa_node": command.numa_node}

    return {"flow": pair.flow.name, "server": end(pair.server), "client": end(pair.client)}
