"""`collie export`."""

from __future__ import annotations

from pathlib import Path

import click

from collie.app import exports
from collie.campaign.reproduce import BUNDLE_SUFFIX
from collie.cli.base import CollieCommand
from collie.cli.named import ANOMALY
from collie.cli.options import format_option, output_file, print_json, require_writable
from collie.errors import UsageError
from collie.wiring import ADAPTERS
from collie.workloads.units import format_bytes


@click.command("export", cls=CollieCommand)
@click.argument("anomaly", type=ANOMALY)
@click.option(
    "--as", "form", type=click.Choice(list(exports.EXPORTS)), default="bundle", show_default=True, help="Form."
)
@click.option("--hosts", metavar="FILE", help="For perftest and script: inventory with devices and addresses.")
@click.option(
    "-o", "--output", "file", metavar="FILE", help="Output file.  [default: ID.pyz for a bundle, else stdout]"
)
@format_option
def command(anomaly: str, form: str, hosts: str | None, file: str | None, output: str) -> int:
    """Write an anomaly in a form that does not need Collie.

    ANOMALY is named as for `collie reproduce`. A workload file can be written as perftest commands, too. A bundle is
    one file that reproduces the anomaly and judges it as Collie does. It needs Python 3.11 and ssh where it is started,
    and Python 3.9 and libibverbs on the hosts. perftest prints its commands, and exits 1 when perftest cannot express
    the anomaly. script is a shell script that runs and compares them.

    \b
    Example:
      collie export campaigns/20261120T101500Z-lab-1/a1 --as bundle -o a1.pyz
      collie export nsdi22-08 --as perftest
      python3 a1.pyz --hosts root@h1,mlx5_0,10.9.0.1 root@h2,mlx5_0,10.9.0.2
    """
    require_writable("-o", Path(file) if file else None)
    if form == "bundle" and file is not None and not file.endswith(BUNDLE_SUFFIX):
        raise UsageError(f"-o {file}: Collie knows a bundle by its name; end it in {BUNDLE_SUFFIX}")
    exported = exports.export(ADAPTERS, anomaly, form, hosts)
    path = _place(anomaly, exported, file)
    if path is not None:
        # Only the owner may read a script, because it contains addresses of hosts. A bundle contains none.
        with output_file(path, 0o600 if exported.printable else 0o777) as target:
            target.write(exported.data)
    if output == "json":
        text = exported.data.decode() if exported.printable else None
        written = None if path is None else str(path)
        named = {"schema_version": 1, "anomaly": anomaly, "form": form, "file": written}
        print_json({**named, **exported.fields, "text": text})
    elif path is None:
        click.echo(exported.data.decode(), nl=not exported.data.endswith(b"\n"))
    else:
        click.echo(f"{path}: {format_bytes(len(exported.data))}")
    return 0 if exported.runs else 1


def _place(anomaly: str, exported: exports.Exported, file: str | None) -> Path | None:
    if file is not None:
        return Path(file)
    return None if exported.printable else Path(Path(anomaly.rstrip("/")).name + exported.suffix)
