"""The program of a bundle: `python3 FILE.pyz --hosts A B`. A composition root without other libraries."""

from __future__ import annotations

import argparse
import json
import logging
import os
import pkgutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from collie.bundle.about import about
from collie.bundle.catalogs import Catalogs
from collie.bundle.content import decode
from collie.bundle.hosts import FORM, pair_of
from collie.campaign.budget import Budget
from collie.campaign.events import RunFinished
from collie.campaign.measure import Measurer
from collie.campaign.reproduce import Bundle, Reproduction, reproduce
from collie.campaign.safety import Guard, SafetyRecord, record_of, require_unshared
from collie.campaign.single_run import within_budget
from collie.detect.bounds import Bounds, Calibration
from collie.errors import CollieError, UsageError
from collie.files import require_regular
from collie.hosts.session import Archive
from collie.hosts.testbed import HostsTestbed
from collie.interrupts import install_handlers
from collie.inventory.fingerprint import HostDifference, compare
from collie.inventory.hosts import Pair
from collie.inventory.safety import REAL_HOSTS
from collie.ports import CampaignHeader
from collie.report.json.objects import render_reproduction, render_safety
from collie.report.terminal.trials import NO_CONTROLS, trial_lines
from collie.ssh.openssh import OpenSshRemote
from collie.store.memory import MemoryStore
from collie.streams import outlive_readers
from collie.untrusted import LineFormatter, sanitized

Outcome = tuple[Reproduction, tuple[HostDifference, ...] | None, SafetyRecord | None]

logger = logging.getLogger("bundle")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bundle. An expected error becomes one message on standard error."""
    install_handlers()
    outlive_readers()
    to_stderr = logging.StreamHandler()
    to_stderr.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[to_stderr])
    program = Path(sys.argv[0]).name
    try:
        options = _parser(program).parse_args(argv)
        return _main(options, program)
    except CollieError as error:
        _say(f"{program}: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except Exception as error:
        # Unexpected errors are caught only here. Python's own exit status for them, 1, would mean "not reproduced".
        logger.debug("unforeseen", exc_info=True)
        _say(f"{program}: unforeseen {type(error).__name__}: {error}\nThis is a fault of Collie, which made this file.")
        return 3


def run(bundle: Bundle, testbed: HostsTestbed, *, repeat: int, controls: bool, shared_port: bool) -> Outcome:
    """Repeat an anomaly, judge it, and close the testbed.

    Return the reproduction, the differences from the hosts of the discovery, and the safety record. The differences are
    None if those hosts were not recorded.
    """
    guard = Guard(REAL_HOSTS)
    try:
        for use in require_unshared(testbed.foreign_uses(), shared_port=shared_port):
            logger.warning("%s", use)
        now = testbed.info.fingerprints
        changed = compare(bundle.fingerprints, now) if bundle.fingerprints else None
        measurer = Measurer(
            testbed,
            MemoryStore(CampaignHeader("bundle", {}, "", "", {}, 0, bundle.exported)),
            Bounds(testbed.specification, Calibration(), bundle.siblings.__getitem__),
            bundle.thresholds,
            Budget(),
            _Lines(),
            guard,
            bundle.at_discovery.levels if bundle.at_discovery else None,
        )
        with within_budget():
            found = reproduce(
                measurer,
                bundle.plan,
                bundle.symptom,
                repeat=repeat,
                controls=controls,
                at_discovery=bundle.at_discovery,
            )
    finally:
        left = testbed.close()
    return found, changed, record_of(guard, left)


def _main(options: argparse.Namespace, program: str) -> int:
    bundle = decode(json.loads(_member("content.json")))
    if options.about:
        print(about(bundle, program))
        return 0
    if not options.hosts:
        raise UsageError(f"name the hosts: --hosts {FORM} for each of them; --about says more")
    if options.controls and not bundle.mfs.conditions:
        _say(NO_CONTROLS)
    pair = pair_of(options.hosts)
    keys = [host.identity_file for host in pair.hosts if host.identity_file]
    # A missing key file is no error, because the SSH agent may hold the key.
    for file in (*([options.known_hosts] if options.known_hosts else []), *filter(os.path.lexists, keys)):
        _require_file(file)
    testbed = _testbed(bundle, pair, options.known_hosts)
    found, changed, safety = run(
        bundle, testbed, repeat=options.repeat, controls=options.controls, shared_port=options.shared_port
    )
    if options.format == "json":
        done = {"safety": render_safety(safety)} if safety else {}
        print(json.dumps({**render_reproduction(bundle.name, found, changed), **done}, allow_nan=False))
    else:
        print("\n".join(line.text for line in trial_lines(bundle.name, found, changed)))
    if safety is not None:
        _say(str(safety))
    return 3 if safety and safety.left_behind else found.exit_code


def _require_file(file: str | Path) -> None:
    """Refuse a file that `ssh` would wait for, such as a FIFO."""
    try:
        require_regular(os.stat(file).st_mode, file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None


def _testbed(bundle: Bundle, pair: Pair, known_hosts: Path | None) -> HostsTestbed:
    catalogs = Catalogs.decode(json.loads(_member("catalogs.json")))
    return HostsTestbed(
        pair,
        connect=partial(OpenSshRemote, known_hosts=known_hosts),
        catalog_for=catalogs.find,
        discover=catalogs.discover,
        archive=Archive.of(_member("agent.pyz")),
        **options_of(bundle),
    )


def options_of(bundle: Bundle) -> dict[str, Any]:
    """Return the options of a testbed that runs what the bundle's campaign ran."""
    return {"verify": bundle.verify, "victim": bundle.victim, "victim_bps": bundle.victim_bps}


def _member(name: str) -> bytes:
    data = pkgutil.get_data("collie.bundle", name)
    assert data is not None, "a bundle holds its data"
    return data


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        program,
        description="Runs a performance anomaly of an RDMA subsystem again, and says whether it shows.",
        epilog=f"Example: {program} --hosts root@10.0.0.1,mlx5_0,192.168.77.1 root@10.0.0.2,mlx5_0,192.168.77.2",
    )
    parser.add_argument("--hosts", nargs="+", metavar="HOST", help=f"{FORM}, host A first; or one hosts.json")
    parser.add_argument("--repeat", type=_positive, default=5, metavar="N", help="runs of each workload (5)")
    parser.add_argument("--controls", action="store_true", help="also run it with each condition broken in turn")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="what to print on standard output")
    parser.add_argument("--known-hosts", type=Path, metavar="FILE", help="believe the host keys of this file alone")
    parser.add_argument(
        "--shared-port", action="store_true", help="go on although somebody else uses a port under test"
    )
    parser.add_argument("--about", action="store_true", help="say what this file is, what it runs and what it needs")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs")
    return int(text)


class _Lines:
    def on_event(self, event: Any) -> None:
        if isinstance(event, RunFinished):
            record = event.record
            verdict = event.verdict
            said = record.purpose if verdict is None else f"{verdict.outcome}: {verdict.reason}"
            _say(f"run {record.run} ({record.result.elapsed_seconds:.0f} s) {said}")


def _say(text: str) -> None:
    print(sanitized(text), file=sys.stderr, flush=True)
