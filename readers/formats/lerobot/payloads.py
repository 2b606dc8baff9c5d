"""Values as the bytes of fields: numbers as .npy, texts as UTF-8."""

import io
import json
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.sample import Payload

_PNG = b"\x89PNG"


def to_npy(values: NDArray[Any]) -> bytes:
    """The bytes of an .npy file that holds the values."""
    return _header(values.dtype.str, values.shape) + values.tobytes()


@cache
def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """What stands before them; there are few kinds in a dataset, and numpy takes 20 us to write one."""
    written = io.BytesIO()
    told = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(written, told)
    return written.getvalue()


def to_text(values: NDArray[Any], *, single: bool) -> bytes:
    """One text, or a JSON list of several."""
    return (values[0] if single else json.dumps(values.tolist(), ensure_ascii=False)).encode()


def picture_ending(picture: Payload) -> str:
    """The file ending of an encoded picture, by its first bytes."""
    return "png" if bytes(picture[:4]) == _PNG else "jpg"
