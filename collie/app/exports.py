"""Exports anomalies as files for readers without Collie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import collie
from collie.app.adapters import Adapters
from collie.app.cases import WORKLOAD_SUFFIXES, NamedCase, case_named
from collie.app.inputs import narrowed_space_of, recipe_of, space_named
from collie.app.inventories import first_pair, open_inventory
from collie.campaign.choice import SearchChoice
from collie.campaign.reproduce import BUNDLE_SUFFIX, Bundle, planned
from collie.clock import utc_now
from collie.detect.plain import plain_sibling
from collie.errors import UsageError
from collie.inventory.hosts import Host
from collie.perftest.case import PerftestCase, in_perftest
from collie.search.recipe import Recipe
from collie.workloads.feature import Mfs
from collie.workloads.plan import ROLES
from collie.workloads.space import Space


@dataclass(frozen=True, slots=True)
class Exported:
    """An anomaly in one form.

    Attributes:
        suffix: suffix of the default file name.
        printable: whether the data are text.
        runs: whether the data run the anomaly. Otherwise the data state why this form cannot run it.
    """

    data: bytes
    suffix: str
    printable: bool = True
    runs: bool = True
    fields: Mapping[str, Any] = field(default_factory=dict)


def export(adapters: Adapters, name: str, form: str, hosts: str | None = None) -> Exported:
    """Return an anomaly in one of `EXPORTS`, or a workload file as perftest commands.

    They are for the hosts of an inventory if the form can name hosts.
    """
    pair = first_pair(open_inventory(adapters, hosts)) if hosts else None
    by_role = dict(zip(ROLES, pair.hosts, strict=False)) if pair else {}
    if Path(name).suffix in WORKLOAD_SUFFIXES:
        return _workload(adapters, Path(name), form, by_role)
    return EXPORTS[form](adapters, case_named(adapters, name), by_role)


def _workload(adapters: Adapters, path: Path, form: str, hosts: Mapping[str, Host]) -> Exported:
    if form != "perftest":
        raise UsageError(f"{path} is a workload without an anomaly to reproduce: use --as perftest")
    space = space_named(adapters, None)
    case = in_perftest(path.stem, adapters.content.workload(path, space), None, Mfs(()), space)
    return _commands(adapters, case, hosts)


def _bundle(adapters: Adapters, named: NamedCase, hosts: Mapping[str, Host]) -> Exported:
    if hosts:
        raise UsageError("a bundle is told its hosts when it is run; leave --hosts out")
    return Exported(adapters.reports.bundle(bundle_of(adapters, named)), BUNDLE_SUFFIX, False)


def bundle_of(adapters: Adapters, named: NamedCase) -> Bundle:
    """Return the content of an anomaly's bundle. A bundle runs on real hosts, so their defaults apply."""
    chosen = named.choice
    space = _space(adapters, chosen)
    plan = planned(named.case.workload, named.case.mfs, space, named.case.on)
    workloads = [plan.anomaly, *(workload for workload, _condition in plan.controls)]
    return Bundle(
        name=named.case.name,
        collie_version=collie.__version__,
        exported=utc_now(),
        found_on=named.found_on,
        sentence=named.sentence,
        likely=named.likely,
        symptom=named.case.symptom,
        mfs=named.case.mfs,
        plan=plan,
        siblings={workload: plain_sibling(workload, space) for workload in workloads},
        thresholds=_recipe(adapters, chosen).thresholds,
        verify=chosen.testbed.verify,
        at_discovery=named.case.at_discovery,
        fingerprints=named.fingerprints,
        victim=chosen.testbed.victim,
        victim_bps=chosen.testbed.victim_bps,
        claim=named.claim,
    )


def _space(adapters: Adapters, chosen: SearchChoice) -> Space:
    """Return the space of a campaign, narrowed if it ran on hosts. The simulator's limits do not hold for NICs."""
    return space_named(adapters, chosen.space) if chosen.testbed.is_simulated else narrowed_space_of(adapters, chosen)


def _recipe(adapters: Adapters, chosen: SearchChoice) -> Recipe:
    if chosen.testbed.is_simulated:
        return adapters.content.recipe(chosen.recipe or "hosts")
    return recipe_of(adapters, chosen.testbed, chosen.recipe)


def _perftest(adapters: Adapters, named: NamedCase, hosts: Mapping[str, Host]) -> Exported:
    return _commands(adapters, _in_perftest(adapters, named), hosts)


def _commands(adapters: Adapters, case: PerftestCase, hosts: Mapping[str, Host]) -> Exported:
    text = adapters.reports.perftest_commands(case, hosts)
    return Exported(
        text.encode(), ".sh", runs=case.anomaly.is_faithful, fields=adapters.reports.perftest_json(case, hosts)
    )


def _script(adapters: Adapters, named: NamedCase, hosts: Mapping[str, Host]) -> Exported:
    case = _in_perftest(adapters, named)
    if not case.anomaly.is_faithful:
        raise UsageError(adapters.reports.perftest_commands(case, {}).replace("# ", ""))
    return Exported(adapters.reports.perftest_script(case, hosts).encode(), ".sh")


def _in_perftest(adapters: Adapters, named: NamedCase) -> PerftestCase:
    case = named.case
    if case.on is not None:
        raise UsageError(
            f"{case.name} shows only on a set-up for other workloads, too, which perftest cannot make: use --as bundle"
        )
    if case.symptom.is_of_victim:
        raise UsageError(
            f"{case.name} shows in what a neighbour loses, and perftest commands have no neighbour: use --as bundle"
        )
    expressed = in_perftest(case.name, case.workload, case.symptom, case.mfs, _space(adapters, named.choice))
    return replace(expressed, explanation_begun=named.explanation_begun)


EXPORTS: Mapping[str, Callable[[Adapters, NamedCase, Mapping[str, Host]], Exported]] = {
    "bundle": _bundle,
    "perftest": _perftest,
    "script": _script,
}
"""Exporting functions, by their names for `collie export --as`."""
