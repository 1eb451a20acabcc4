"""One object in a small JSON file beside the record of a campaign. Every process that needs it can write it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from collie.errors import StoreError
from collie.files import read_bytes
from collie.plain import typed
from collie.store.directory import MAX_BYTES
from collie.untrusted import read_json

T = TypeVar("T")


def read_object(path: Path, kind: type[T], version: int, remedy: str, vet: Callable[[T], object] = id) -> T | None:
    """Return the object, or None if there is no file.

    `vet` raises ValueError for an object that makes no sense.

    Raises:
        StoreError: this Collie cannot read the file. The message ends with the `remedy`.
    """
    try:
        found = _object(read_json(read_bytes(path, MAX_BYTES, follow=False).decode()), kind, version)
        vet(found)
        return found
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = error.strerror
    except ValueError as error:
        problem = str(error)
    raise StoreError(f"{path} cannot be read: {problem}; {remedy}")


def _object(raw: Any, kind: type[T], version: int) -> T:
    raw = typed(Mapping[str, Any], raw)
    if raw.get("schema_version") != version:
        raise ValueError(f"it has schema {raw.get('schema_version')!s:.40}, and this Collie reads {version}")
    return cast("T", typed(kind, {key: value for key, value in raw.items() if key != "schema_version"}))
