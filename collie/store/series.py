"""Samples over time, packed: most of the bytes of a campaign, read by hardly anybody but a picture.

Samples of one host mostly name the same readings, so the names are written once per such shape and the readings as
rows; deflated, a run of some thousand readings takes a few kilobytes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

from collie.detect.measurement import Sample
from collie.store.codec import dumps, known

_LEVEL = 1  # of zlib: twice as fast as the default and hardly larger on text of this kind


def encode_series(series: Sequence[Sample]) -> bytes | None:
    """Pack samples; None for none."""
    if not series:
        return None
    shapes: dict[tuple[str, ...], int] = {}
    rows = []
    for sample in series:
        shape = shapes.setdefault(tuple(sample.values), len(shapes))
        rows.append([sample.seconds, sample.host, shape, *map(known, sample.values.values())])
    return zlib.compress(dumps({"shapes": list(shapes), "rows": rows}).encode(), _LEVEL)


def decode_series(packed: bytes | None) -> tuple[Sample, ...]:
    """Unpack what `encode_series` packed."""
    if packed is None:
        return ()
    raw = json.loads(zlib.decompress(packed))
    shapes = raw["shapes"]
    return tuple(
        Sample(seconds, host, dict(zip(shapes[shape], values, strict=True)))
        for seconds, host, shape, *values in raw["rows"]
    )
