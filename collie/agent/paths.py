"""The two data paths: libibverbs by ctypes with a traffic loop in C, or pyverbs with the loop in Python.

Both use pyverbs' names and the interface of ``Traffic``. They share all other code.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, Callable, Dict, NamedTuple, Optional, Union

from . import shared_object
from .faults import AgentFault, bad_request
from .library import Library, VerbsError
from .native import NativeVerbs
from .native_traffic import NativeTraffic, TrafficObject
from .nic_clock import ClockFunctions
from .traffic import Traffic
from .verbs import PyVerbs, Verbs, version

NATIVE, PYVERBS = "native", "pyverbs"
NAMES = (NATIVE, PYVERBS)

AnyTraffic = Union[Traffic, NativeTraffic]


class DataPath(NamedTuple):
    """A way to drive traffic. ``traffic`` takes the arguments of ``Traffic`` except the first.

    A path that ``paces`` can offer a load, and times rounds.
    """

    name: str
    verbs: Verbs
    traffic: Callable[..., AnyTraffic]
    detail: str
    paces: bool = False


class DataPaths:
    """Usable data paths, best first, and reasons for missing ones."""

    def __init__(self) -> None:
        self.usable: Dict[str, DataPath] = {}
        self.missing: Dict[str, str] = {}

    def add(self, name: str, load: Callable[[], DataPath]) -> None:
        """Load a path, or record why it cannot be loaded."""
        try:
            self.usable[name] = load()
        except OSError as error:
            self.missing[name] = str(error)

    def choose(self, name: Optional[str] = None) -> DataPath:
        """Return the named path, or the best usable one.

        Raises:
            AgentFault: ``unsupported`` with the reason, or ``bad_request`` for an unknown name.
        """
        if name is not None and name not in NAMES:
            raise bad_request(f"prepare: data_path must be one of {', '.join(NAMES)}, not {name!r}")
        wanted = [name] if name else NAMES
        for candidate in wanted:
            if candidate in self.usable:
                return self.usable[candidate]
        reasons = "; ".join(f"{candidate}: {self.missing[candidate]}" for candidate in wanted)
        raise AgentFault("unsupported", "load", f"no data path can be used on this host: {reasons}")

    def facts(self) -> Dict[str, Any]:
        """Return the fields of ``hello`` about data paths."""
        return {
            "pyverbs": version() if PYVERBS in self.usable else None,
            "pyverbs_present": PYVERBS in self.usable,
            "pyverbs_error": self.missing.get(PYVERBS),
            "data_paths": {name: self._describe(name) for name in NAMES},
        }

    def _describe(self, name: str) -> Dict[str, Any]:
        usable = name in self.usable
        return {"usable": usable, "detail": self.usable[name].detail if usable else self.missing[name]}


def load_native(library: str = "libibverbs.so.1") -> DataPath:
    """Load libibverbs and the compiled loop, or raise OSError."""
    loaded_library = Library(library)
    with contextlib.suppress(VerbsError):  # this call loads the drivers. Their errors show when a device is opened
        loaded_library.free_device_list(loaded_library.make("get_device_list", None))
    loaded, detail = shared_object.load()
    functions = TrafficObject(loaded, loaded_library)
    verbs = NativeVerbs(loaded_library, ClockFunctions(loaded))
    return DataPath(NATIVE, verbs, partial(NativeTraffic, functions), detail, paces=True)


def load_pyverbs() -> DataPath:
    """Import pyverbs, or raise OSError."""
    try:
        loaded = PyVerbs()
    except (ImportError, AttributeError, OSError) as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    return DataPath(PYVERBS, loaded, partial(Traffic, loaded.PyverbsError), version() or "no version")


def load() -> DataPaths:
    """Load all data paths. The agent does so before it forks, as loading pyverbs takes a second."""
    paths = DataPaths()
    paths.add(NATIVE, load_native)
    paths.add(PYVERBS, load_pyverbs)
    return paths
