"""Read maps of numbers over an image, such as depth, disparity and optical flow, and make batches of them."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.arguments.values import refuse
from dali_pipes.decode.stored import read_numbers
from dali_pipes.errors import DecodeError, LoaderError
from dali_pipes.samples.read_field import FieldError, read_field, require_batch_names
from gpu_aug.upload import upload
from readers.sample import Payload

FlowFormat = Literal["kitti"]

# The first bytes of a .flo file: the number 202021.25 as float32.
_FLO = b"PIEH"
# Type, width, height and scale; the limited lengths limit the memory that a damaged header can request.
_PFM = re.compile(rb"P([Ff])\s+(\d{1,9})\s+(\d{1,9})\s+(-?[0-9.eE+]{1,20})\s")
# Larger vectors mean "unknown", as in Middlebury's own reader of .flo files.
_UNKNOWN_FLOW = 1e9
# KITTI's development kit stores (flow * 64) + 2**15.
_KITTI_ZERO, _KITTI_SCALE = 2.0**15, 64.0


@dataclass(frozen=True, slots=True)
class NumberMap:
    """A map with one number per pixel, such as depth, disparity or height.

    The map is cropped, flipped and warped like the image, with nearest-neighbour resampling. In the batch it is float32
    [B, 1, H, W]. Unknown pixels, and pixels outside the image, are NaN: ``batch["depth"].isfinite()`` is true for known
    pixels.

    Args:
        field: The field of the samples: PNG of 8 or 16 bits, TIFF or NumPy file of one channel, or PFM.
        scale: Divisor of the stored numbers, which the file does not contain: 256 for KITTI's depth in metres and
            disparity in pixels, 5000 for TUM's depth, 1000 for millimetres, 1 for no conversion.
        unknown: The stored number that means "unknown"; None if every stored number is a value.

    Raises:
        LoaderError: The scale is not a number above 0, or the field is not a string.

    Example:
        >>> NumberMap("depth.png", scale=1000)
        NumberMap(field='depth.png', scale=1000, unknown=0)
    """

    field: str
    scale: float
    unknown: float | None = 0
    num_layers: ClassVar[int] = 1

    def __post_init__(self) -> None:
        is_number = isinstance(self.scale, int | float) and not isinstance(self.scale, bool)
        refuse(
            _field_fault(self.field, "NumberMap", "depth.png"),
            (
                not is_number or not 0 < self.scale < float("inf"),
                f"NumberMap(scale={self.scale!r}) is not allowed; give a number above 0, such as 256",
            ),
        )

    def read(self, data: Payload) -> NDArray[np.float32]:
        """Decode a map's file; return float32 [1, height, width], NaN for unknown pixels.

        Raises:
            DecodeError: The bytes are damaged, or have a format that is not supported.
        """
        stored = _read_pfm(data) if data[:2] == b"Pf" else read_numbers(data, 1)
        values = stored.astype(np.float32)
        if self.unknown is not None:
            values[stored == self.unknown] = np.nan
        values[~np.isfinite(values)] = np.nan
        return np.moveaxis(values, -1, 0) / np.float32(self.scale)


@dataclass(frozen=True, slots=True)
class Flow:
    """Optical flow: for each pixel of the image, the vector to the same point in another image.

    The flow is cropped, flipped and warped like the image, with nearest-neighbour resampling, and its vectors rotate and
    scale with the image. In the batch it is float32 [B, 2, H, W]: x to the right and y down, in pixels of the batch; NaN
    for unknown pixels.

    Args:
        field: The field of the samples: Middlebury's .flo, PFM, or a TIFF or NumPy file of two channels of floats.
        format: "kitti" for a 16-bit PNG in KITTI's flow format. It is required for a PNG, which may also be a colour
            picture of flow.

    Raises:
        LoaderError: The field is a PNG, and no format is given.

    Example:
        >>> Flow("flow.flo"), Flow("flow.png", format="kitti")
        (Flow(field='flow.flo', format=None), Flow(field='flow.png', format='kitti'))
    """

    field: str
    format: FlowFormat | None = None
    num_layers: ClassVar[int] = 2

    def __post_init__(self) -> None:
        refuse(
            _field_fault(self.field, "Flow", "flow.flo"),
            (
                self.format not in (None, "kitti"),
                f"Flow(format={self.format!r}) is not known; allowed are 'kitti', None",
            ),
            (
                self.format is None and str(self.field).lower().endswith("png"),
                f"Flow({self.field!r}) is a PNG, which may be KITTI's or a picture of colours; give format='kitti' for "
                "KITTI's",
            ),
        )

    def read(self, data: Payload) -> NDArray[np.float32]:
        """Decode a flow file; return the x and y of the vectors, float32 [2, height, width], NaN for unknown pixels.

        Raises:
            DecodeError: The bytes are damaged, or have a format that is not supported.
        """
        if self.format == "kitti":
            return np.moveaxis(_read_kitti(data), -1, 0)
        if data[:4] == _FLO:
            flow = _read_flo(data)
        elif data[:2] == b"PF":
            flow = _read_pfm(data)[..., :2]
        else:
            flow = read_numbers(data, 2)
        if flow.dtype.kind != "f":
            raise DecodeError(f"flow must be floats, got {flow.dtype.name}")
        values = flow.astype(np.float32)
        values[~(np.abs(values) < _UNKNOWN_FLOW).all(axis=-1)] = np.nan
        return np.moveaxis(values, -1, 0)


@dataclass(frozen=True, slots=True)
class DepthFrames:
    """The frames of a robot's depth camera, in metres; the decode stage of clips reads them.

    Args:
        num_layers: Count of frames of a sample, T.
    """

    num_layers: int


@dataclass(frozen=True, slots=True)
class MapReader:
    """Reads the maps that a loader requests.

    Args:
        maps: The maps by name in the batch: all from fields, which `read` reads, or all of depth cameras.
    """

    maps: tuple[tuple[str, NumberMap | Flow | DepthFrames], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.maps)

    @property
    def vectors(self) -> tuple[int, ...]:
        """For each map of vectors (a Flow), the index of its first layer in the result of `read`."""
        starts = accumulate((a_map.num_layers for _, a_map in self.maps), initial=0)
        return tuple(
            start
            for start, (_, a_map) in zip(starts, self.maps, strict=False)
            if isinstance(a_map, Flow)
        )

    def reads(self, name: str) -> bool:
        """Return whether a field of this name is one of the maps."""
        return any(a_map.field == name for _, a_map in self.of_fields)

    @property
    def of_fields(self) -> list[tuple[str, NumberMap | Flow]]:
        """The maps that `read` reads, by name."""
        return [(name, one) for name, one in self.maps if not isinstance(one, DepthFrames)]

    def read(self, fields: Mapping[str, Payload], size: tuple[int, int]) -> NDArray[np.float32]:
        """Return all maps of a sample, float32 [M, height, width].

        Raises:
            FieldError: A map is missing, cannot be read, or has another size than the image.
        """
        maps = [a_map for _, a_map in self.of_fields]
        return np.concatenate(
            [read_field(fields, a_map.field, partial(_read_layers, a_map, size)) for a_map in maps]
        )

    def collate(
        self,
        maps: Sequence[NDArray[np.float32]],
        size: tuple[int, int],
        device: torch.device,
    ) -> dict[str, torch.Tensor]:
        """Return the maps of a batch by name, each float32 [B, 1 or 2, H, W], of depth cameras [B, T, 1, H, W].

        Args:
            maps: The layers of each row, float32 [M, H, W], cropped and warped like the image.
            size: Height and width of the images.
            device: Device of the tensors.
        """
        if not self:
            return {}
        layers = [a_map.num_layers for _, a_map in self.maps]
        rows = np.array(maps, np.float32).reshape(len(maps), sum(layers), *size)
        parts = torch.split(upload(torch.from_numpy(rows), device), layers, dim=1)
        return {
            name: (part.unsqueeze(2) if isinstance(a_map, DepthFrames) else part).contiguous()
            for (name, a_map), part in zip(self.maps, parts, strict=True)
        }


def as_map_reader(maps: Mapping[str, NumberMap | Flow] | None) -> MapReader:
    """Return the reader for the loader's argument `maps`.

    Raises:
        LoaderError: A name is reserved for Batch, or a value is not a map.
    """
    if maps is None:
        return MapReader()
    if not isinstance(maps, Mapping):
        raise LoaderError(
            f'maps={maps!r} is not allowed; give a dictionary, such as {{"depth": NumberMap("depth.png", scale=256)}}'
        )
    require_batch_names("maps", maps)
    for name, given in maps.items():
        if not isinstance(given, NumberMap | Flow):
            raise LoaderError(
                f"maps[{name!r}]={given!r} is not allowed; give NumberMap(field, scale=...) or Flow(field)"
            )
    return MapReader(tuple(maps.items()))


def _field_fault(field: object, kind: str, example: str) -> tuple[bool, str]:
    """Return whether a value is an invalid name of a field, and the error message for this case."""
    is_name = isinstance(field, str) and field != ""
    return (
        not is_name,
        f"{kind}(field={field!r}) is not allowed; give the name of a field, such as {example!r}",
    )


def _read_layers(
    a_map: NumberMap | Flow, size: tuple[int, int], data: Payload
) -> NDArray[np.float32]:
    layers = a_map.read(data)
    if layers.shape[1:] != size:
        raise FieldError(
            f"it must be as large as the upright image, {size[0]}x{size[1]}, got {layers.shape[1]}x{layers.shape[2]}"
        )
    return layers


def _read_flo(data: Payload) -> NDArray[Any]:
    """Read Middlebury's format: "PIEH", width and height as int32, then pairs of float32, all little-endian."""
    if len(data) < 12:
        raise DecodeError("a .flo file that ends within its header")
    width, height = np.frombuffer(data, "<i4", 2, 4).tolist()
    return _read_floats(data, 12, "<f4", (height, width, 2))


def _read_pfm(data: Payload) -> NDArray[Any]:
    """Read a PFM: rows from bottom to top, little-endian if the scale is negative; "F" has three channels."""
    found = _PFM.match(data)
    if found is None:
        raise DecodeError("a PFM whose header cannot be read")
    letter, width, height, scale = found.groups()
    shape = (int(height), int(width), 3 if letter == b"F" else 1)
    dtype = "<f4" if scale.startswith(b"-") else ">f4"
    return _read_floats(data, found.end(), dtype, shape)[::-1].astype(np.float32)


def _read_floats(
    data: Payload, start: int, dtype: str, shape: tuple[int, int, int]
) -> NDArray[Any]:
    """Return the numbers after a file's header; memory is only allocated for numbers that exist.

    Raises:
        DecodeError: The file has more or fewer numbers than `shape` needs.
    """
    if min(shape) < 1 or len(data) - start != 4 * math.prod(shape):
        raise DecodeError(
            f"a file of {len(data)} bytes whose header says {shape[0]}x{shape[1]}: truncated or damaged"
        )
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def _read_kitti(data: Payload) -> NDArray[np.float32]:
    """Read KITTI's 16-bit PNG: red and green are (value - 2**15) / 64 pixels; blue is 0 for unknown pixels."""
    stored = read_numbers(data, 3)
    if stored.dtype != np.uint16:
        raise DecodeError(f"KITTI's flow must be a PNG of 16 bits, got {stored.dtype.name}")
    flow = (stored[..., :2].astype(np.float32) - np.float32(_KITTI_ZERO)) / np.float32(_KITTI_SCALE)
    flow[stored[..., 2] == 0] = np.nan
    return flow
