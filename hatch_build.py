"""hatchling's build hook: compiles the agent's traffic loop where a C compiler is there, and goes on where none is.

The object is data for Linux hosts on x86_64, so the wheel stays one for every platform. In an editable install it is
put beside its source; the agent's archive is never built with one that is older than that (``collie.agent.build``).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

AGENT = Path("collie") / "agent"


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg, misc]
    """Puts the object into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling passes it
        """Compile, or say what the hosts will use instead."""
        root = Path(self.root)
        compiler = _load(root / AGENT / "compiler.py")
        try:
            compiler.current(str(root / AGENT / "native"))
            build_data["artifacts"].append(f"{AGENT.as_posix()}/native/{compiler.OBJECT}")
        except compiler.NotCompiled as error:
            self.app.display_info(f"without the agent's compiled traffic loop, hosts may use pyverbs: {error}")


def _load(path: Path) -> ModuleType:
    """Import one module of Collie by its file: what Collie depends on is not installed while it is built."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
