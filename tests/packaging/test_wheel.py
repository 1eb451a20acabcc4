"""The wheel carries its content and finds it without the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(argv, check=True, timeout=300)
    (built,) = folder.glob("collie_rdma-*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_content_agent_and_templates(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "collie/_content/workloads/spaces/nsdi22.yaml",
        "collie/_content/workloads/anomalies/nsdi22-18.yaml",
        "collie/_content/search/recipes/random.yaml",
        "collie/_content/counters/rxe/catalog.yaml",
        "collie/simulator/subsystems/F.yaml",
        "collie/report/templates/campaign.html.j2",
        "collie/agent/__init__.py",
        "collie/lab/init.sh",
        "collie/py.typed",
        "collie/_content/docs/index.md",
        "collie/_content/docs/reference/commands.md",
        "collie/_content/hosts.example.yaml",
    } <= names
    assert not [name for name in names if name.startswith("tests/")]
    assert {f"collie/agent/native/{name}" for name in ("traffic.c", "nic_clock.h", "verbs_abi.h")} <= names
    # Compiled where the wheel was built, if it could be: hosts have no compiler. It is data: the wheel is for all.
    assert ("collie/agent/native/traffic.x86_64.so" in names) == (shutil.which("cc") is not None)
    assert wheel.name.endswith("-py3-none-any.whl")


@pytest.mark.slow
def test_the_installed_wheel_searches_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(unpacked)
    code = (
        f"import sys; sys.path.insert(0, {str(unpacked)!r}); import collie; "
        f"assert collie.__file__.startswith({str(unpacked)!r}); "
        "from collie.cli.main import run; assert run(['docs', 'index']) == 0; "
        "sys.exit(run(['search', '--budget', '20runs', '--format', 'json']))"
    )
    # -I: neither the working directory nor an editable install's path may help out.
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Documentation\n")
    assert '"runs": 20' in done.stdout
