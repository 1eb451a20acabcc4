"""Packs the samples of a run. Samples are most of the bytes of a campaign, and only figures need them.

Most samples of a host have readings of the same names. The names are written once, and the values as rows.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypedDict

from collie.detect.measurement import Sample
from collie.plain import known, typed
from collie.store.codec import count_values, dumps, require_few_values
from collie.untrusted import read_json

MAX_BYTES = 8 << 20
MAX_VALUES = 600_000
MAX_SAMPLES = 10_000  # a minute at four samples a second of eight hosts with 250 counters each

_LEVEL = 1  # zlib: twice as fast as the default, and hardly larger on such text


def encode_series(series: Sequence[Sample]) -> bytes | None:
    """Pack samples. Return None if there are none. Every second one of each host is dropped until the limits hold."""
    if not series:
        return None
    text = _text(series)
    while len(series) > MAX_SAMPLES or len(text) > MAX_BYTES or count_values(text) > MAX_VALUES:
        fewer = _every_second(series)
        if len(fewer) == len(series):
            return None
        series, text = fewer, _text(fewer)
    return zlib.compress(text.encode(), _LEVEL)


def _every_second(series: Sequence[Sample]) -> list[Sample]:
    seen: Counter[str] = Counter()
    kept = []
    for sample in series:
        seen[sample.host] += 1
        if seen[sample.host] % 2:
            kept.append(sample)
    return kept


def _text(series: Sequence[Sample]) -> str:
    shapes: dict[tuple[str, ...], int] = {}
    rows = []
    for sample in series:
        shape = shapes.setdefault(tuple(sample.values), len(shapes))
        rows.append([sample.seconds, sample.host, shape, *map(known, sample.values.values())])
    return dumps({"shapes": list(shapes), "rows": rows})


def decode_series(packed: Any) -> tuple[Sample, ...]:
    """Unpack the result of `encode_series`. Raises `ValueError` for data above a limit, or of another form."""
    if packed is None:
        return ()
    raw: _Packed = typed(_Packed, read_json(require_few_values(_unpacked(packed), MAX_VALUES)))
    if len(raw["rows"]) > MAX_SAMPLES:
        raise ValueError(f"a run has more than {MAX_SAMPLES:,} samples")
    return tuple(_sample(row, raw["shapes"]) for row in raw["rows"])


def _unpacked(packed: Any) -> str:
    if not isinstance(packed, bytes):
        raise ValueError("samples are not packed bytes")
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"samples cannot be unpacked: {error}") from None
    if not unpacking.eof:
        raise ValueError(f"samples are damaged, or longer than {MAX_BYTES >> 20} MiB")
    return text.decode()


def _sample(row: Sequence[Any], shapes: Sequence[Sequence[str]]) -> Sample:
    seconds, host, shape = typed(tuple[float, str, int], row[:3])
    if not 0 <= shape < len(shapes):
        raise ValueError(f"there is no shape {shape}")
    values: Sequence[float | None] = typed(Sequence[float | None], row[3:])
    return Sample(seconds, host, dict(zip(shapes[shape], values, strict=True)))


class _Packed(TypedDict):
    shapes: Sequence[Sequence[str]]
    rows: Sequence[Sequence[Any]]
