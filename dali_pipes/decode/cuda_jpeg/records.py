"""The source text of the kernels, and the records (struct types) that host and kernels share.

``kernels/types.cuh`` defines the same records and documents their fields.
"""

from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

LOOK_BITS = 10
"""Must equal FAST_BITS of ``dali_pipes/jpeg/huffman_tables.py``, which builds the tables."""


UPLOADED, FRESH, KEPT = range(3)
"""Where an image's bytes are: uploaded for this launch only, uploaded now and cached on the device, or cached
before."""
ANY_REST = 255
"""Replaces the number of unused bits in the last byte if that number is unknown (0 to 7)."""
GROUP_MAX = 128
"""Largest number of intervals in a group, which equals the threads of a block."""

_U8, _I16, _U16, _I32, _U32, _U64 = np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.uint64


def _fields(kind: Any, names: str) -> list[Any]:
    return [(name, kind) for name in names.split()]


def _record(*fields: Any) -> "np.dtype[np.void]":
    return np.dtype(list(fields), align=True)


TABLES = _record(
    ("look", _U16, (4, 1 << LOOK_BITS)),
    ("bound", _I32, (4, 17)),
    ("offset", _I32, (4, 17)),
    ("symbols", _U8, (4, 256)),
    ("zigzag", _U8, (64,)),
)

INTERVAL = _record(
    *_fields(_U32, "begin end image mcu count"),
    *_fields(_U8, "skip rest"),
    ("level", _I16, (3,)),
    ("after", _I16, (3,)),
    ("unused", _I16),
)

GROUP = _record(*_fields(_U32, "first count tables unused"))

PLANE = _record(
    ("pixels", _U64),
    *_fields(_U32, "row_bytes first_block across down left_block top_block"),
    *_fields(_U32, "first_column last_column first_row last_row"),
    *_fields(_U32, "grow_across grow_down fancy width height unused"),
    ("steps", _I16, (64,)),
)

IMAGE = _record(
    *_fields(_U64, "part bytes"),
    *_fields(_U32, "coefficients mcus_across first_mcu mcu_columns first_mcu_row mcu_rows"),
    *_fields(_U32, "num_blocks num_planes"),
    ("blocks", _U8, (16,)),
    *_fields(_U32, "top left rows columns"),
    *_fields(_I32, "first_pixel row_step pixel_step"),
    ("place", _U32),
    ("planes", PLANE, (3,)),
)

SIDE = _record(("weights", _U64), *_fields(_U32, "length size first last taps bits_at"))

VIEW = _record(
    *_fields(_U64, "canvas source"),
    *_fields(_U32, "source_row antialias height width"),
    *_fields(_I32, "top left"),
    ("sides", SIDE, (2,)),
)

JOB = _record(
    *_fields(
        _U64,
        "workspace data fresh intervals groups tables images views coefficients depths statuses bits",
    ),
    *_fields(_U32, "num_groups num_images num_views unused"),
)

RECORDS = (TABLES, INTERVAL, GROUP, PLANE, IMAGE, SIDE, VIEW, JOB)
"""All records; the kernels number them in this order."""

TABLES_BYTES, INTERVAL_BYTES, GROUP_BYTES = (
    record.itemsize for record in (TABLES, INTERVAL, GROUP)
)
IMAGE_BYTES, VIEW_BYTES = IMAGE.itemsize, VIEW.itemsize

_FOLDER = Path(__file__).parent / "kernels"
_FILES = ("types", "huffman", "idct", "color", "resize")


@cache
def source(target: Literal["gpu", "cpu"]) -> str:
    """Return one translation unit: CUDA kernels for NVRTC, or plain functions for g++."""
    names = (*_FILES, f"launch_{target}")
    return "\n".join((_FOLDER / f"{name}.cuh").read_text(encoding="utf-8") for name in names)
