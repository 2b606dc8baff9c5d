"""Maps of numbers over an image: depth, disparity, optical flow. How their files are read, and batches of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.batch import Batch
from dali_pipes.decode.stored import read_numbers
from dali_pipes.errors import DecodeError, LoaderError
from gpu_aug.errors import TargetsError
from gpu_aug.upload import upload
from readers import HeaderError
from readers.sample import Payload

FlowFormat = Literal["kitti"]

_FLO = b"PIEH"
_PFM = re.compile(rb"P([Ff])\s+(\d{1,9})\s+(\d{1,9})\s+(-?[0-9.eE+]{1,20})\s")
_UNKNOWN_FLOW = (
    1e9  # larger ones are unknown, says the reader of .flo files that Middlebury gives away
)
_KITTI_ZERO, _KITTI_SCALE = 2.0**15, 64.0


@dataclass(frozen=True, slots=True)
class NumberMap:
    """A number for each pixel of the image, such as depth, disparity or height.

    It moves as the image does, the nearest pixel each, and is float32 [B, 1, H, W] in the batch. Where nothing is
    known, beside the image too, it is NaN: ``batch["depth"].isfinite()`` says where it is known.

    Args:
        field: The field of the samples: PNG of 8 or 16 bits, TIFF or NumPy file of one channel, or PFM.
        scale: What the stored numbers are divided by, which no file says: 256 for KITTI's depth in metres and
            disparity in pixels, 5000 for TUM's depth, 1000 for millimetres, 1 for numbers that are meant as they are.
        unknown: The stored number that stands for "not known"; None where there is none.

    Raises:
        LoaderError: The scale is no number above 0, or the field no text.

    Example:
        >>> NumberMap("depth.png", scale=1000)
        NumberMap(field='depth.png', scale=1000, unknown=0)
    """

    field: str
    scale: float
    unknown: float | None = 0

    def __post_init__(self) -> None:
        if not isinstance(self.field, str) or not self.field:
            raise LoaderError(
                f"NumberMap(field={self.field!r}) is not allowed; give the name of a field, such as 'depth.png'"
            )
        number = isinstance(self.scale, int | float) and not isinstance(self.scale, bool)
        if not number or not 0 < self.scale < float("inf"):
            raise LoaderError(
                f"NumberMap(scale={self.scale!r}) is not allowed; give a number above 0, such as 256"
            )

    def read(self, data: Payload) -> NDArray[np.float32]:
        """Return float32 [1, height, width].

        Raises:
            DecodeError: They are something else.
        """
        stored = _read_pfm(data, b"f") if data[:2] == b"Pf" else read_numbers(data, 1)
        values = stored.astype(np.float32)
        if self.unknown is not None:
            values[stored == self.unknown] = np.nan
        values[~np.isfinite(values)] = np.nan
        return np.moveaxis(values, -1, 0) / np.float32(self.scale)


@dataclass(frozen=True, slots=True)
class Flow:
    """Optical flow: for each pixel of the image, how far away in another picture the point lies that it shows.

    It moves as the image does, the nearest pixel each, and its vectors turn and scale with it. In the batch it is
    float32 [B, 2, H, W]: x to the right and y down, in pixels of the batch; NaN where nothing is known.

    Args:
        field: The field of the samples: Middlebury's .flo, PFM, or a TIFF or NumPy file of two channels of floats.
        format: "kitti" for a PNG of 16 bits as KITTI stores flow; a PNG can be a picture of colours as well.

    Raises:
        LoaderError: A PNG of which the format is not said.

    Example:
        >>> Flow("flow.flo"), Flow("flow.png", format="kitti")
        (Flow(field='flow.flo', format=None), Flow(field='flow.png', format='kitti'))
    """

    field: str
    format: FlowFormat | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.field, str) or not self.field:
            raise LoaderError(
                f"Flow(field={self.field!r}) is not allowed; give the name of a field, such as 'flow.flo'"
            )
        if self.format not in (None, "kitti"):
            raise LoaderError(
                f"Flow(format={self.format!r}) is not known; allowed are 'kitti', None"
            )
        if self.format is None and self.field.lower().endswith("png"):
            raise LoaderError(
                f"Flow({self.field!r}) is a PNG, which may be KITTI's or a picture of colours; give format='kitti' if it "
                "is that"
            )

    def read(self, data: Payload) -> NDArray[np.float32]:
        """Return float32 [2, height, width].

        Raises:
            DecodeError: They are something else.
        """
        if self.format == "kitti":
            return np.moveaxis(_read_kitti(data), -1, 0)
        if data[:4] == _FLO:
            flow = _read_flo(data)
        elif data[:2] == b"PF":
            flow = _read_pfm(data, b"F")[..., :2]
        else:
            flow = read_numbers(data, 2)
        if flow.dtype.kind != "f":
            raise DecodeError(f"flow must be floats, got {flow.dtype.name}")
        values = flow.astype(np.float32)
        values[~(np.abs(values) < _UNKNOWN_FLOW).all(axis=-1)] = np.nan
        return np.moveaxis(values, -1, 0)


@dataclass(frozen=True, slots=True)
class MapReader:
    """Reads the maps of a sample, and puts those of a batch together.

    Args:
        maps: By their names in the batch.
    """

    maps: tuple[tuple[str, NumberMap | Flow], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.maps)

    @property
    def vectors(self) -> tuple[int, ...]:
        """The first layer of each map of vectors."""
        starts, start = [], 0
        for _, one in self.maps:
            if isinstance(one, Flow):
                starts.append(start)
            start += _layers(one)
        return tuple(starts)

    def reads(self, name: str) -> bool:
        """Whether a field of this name is one of them."""
        return any(one.field == name for _, one in self.maps)

    def read(self, given: Mapping[str, Payload], size: tuple[int, int]) -> NDArray[np.float32]:
        """Return all maps of a sample, float32 [M, height, width].

        Raises:
            TargetsError: One is missing, cannot be read, or is of another size than the image.
        """
        layers = []
        for name, one in self.maps:
            if one.field not in given:
                raise TargetsError(
                    f"{name}: no field {one.field!r}; the sample's fields: {', '.join(given)}"
                )
            try:
                read = one.read(given[one.field])
            except (DecodeError, HeaderError) as error:
                raise TargetsError(f"{name}: {error}") from error
            if read.shape[1:] != size:
                raise TargetsError(
                    f"{name} must be as large as the upright image, {size[0]}x{size[1]}, got "
                    f"{read.shape[1]}x{read.shape[2]}"
                )
            layers.append(read)
        return np.concatenate(layers)

    def collate(
        self,
        maps: Sequence[NDArray[np.float32]],
        size: tuple[int, int],
        device: torch.device,
    ) -> dict[str, torch.Tensor]:
        """Return float32 [B, 1 or 2, H, W] by name.

        Args:
            maps: The layers of each row, moved.
            size: Height and width of the images.
            device: Where they shall lie.
        """
        if not self:
            return {}
        num_layers = sum(_layers(one) for _, one in self.maps)
        together = np.empty((len(maps), num_layers, *size), np.float32)
        for row, one in enumerate(maps):
            together[row] = one
        uploaded = upload(torch.from_numpy(together), device)
        parts = torch.split(uploaded, [_layers(one) for _, one in self.maps], dim=1)
        return {name: part.contiguous() for (name, _), part in zip(self.maps, parts, strict=True)}


def as_map_reader(maps: Mapping[str, NumberMap | Flow] | None) -> MapReader:
    """Return the reader of the maps that a loader was asked for.

    Raises:
        LoaderError: A name is one of Batch's own, or its value is not a map.
    """
    if maps is None:
        return MapReader()
    if not isinstance(maps, Mapping):
        raise LoaderError(
            f'maps={maps!r} is not allowed; give a dictionary, such as {{"depth": NumberMap("depth.png", scale=256)}}'
        )
    taken = [own.name for own in fields(Batch)]
    for name, one in maps.items():
        if not isinstance(name, str) or name in taken:
            raise LoaderError(
                f"maps={name!r} is not allowed: batch.{name} is something else; give it another name"
            )
        if not isinstance(one, NumberMap | Flow):
            raise LoaderError(
                f"maps[{name!r}]={one!r} is not allowed; give NumberMap(field, scale=...) or Flow(field)"
            )
    return MapReader(tuple(maps.items()))


def _layers(one: NumberMap | Flow) -> int:
    return 2 if isinstance(one, Flow) else 1


def _read_flo(data: Payload) -> NDArray[Any]:
    """Read Middlebury's format: "PIEH", width and height as int32, then pairs of float32, all little-endian."""
    if len(data) < 12:
        raise DecodeError("a .flo file that ends within its header")
    width, height = np.frombuffer(data, "<i4", 2, 4).tolist()
    if width < 1 or height < 1 or len(data) != 12 + 8 * width * height:
        raise DecodeError(
            f"a .flo file of {len(data)} bytes whose header says {height}x{width}: truncated or damaged"
        )
    return np.frombuffer(data, "<f4", offset=12).reshape(height, width, 2)


def _read_pfm(data: Payload, letter: bytes) -> NDArray[Any]:
    """Read a PFM: rows from bottom to top, little-endian where the scale is negative; "F" has three channels."""
    found = _PFM.match(data)
    if found is None or found[1] != letter:
        raise DecodeError("a PFM whose header cannot be read")
    width, height, channels = int(found[2]), int(found[3]), 3 if letter == b"F" else 1
    order = "<" if found[4].startswith(b"-") else ">"
    if len(data) - found.end() != 4 * width * height * channels or not width * height:
        raise DecodeError(
            f"a PFM of {len(data)} bytes whose header says {height}x{width}: truncated or damaged"
        )
    rows = np.frombuffer(data, f"{order}f4", offset=found.end()).reshape(height, width, channels)
    return rows[::-1].astype(np.float32)


def _read_kitti(data: Payload) -> NDArray[np.float32]:
    """Read KITTI's PNG of 16 bits: red and green are (value - 2**15) / 64 pixels, blue says whether it is known."""
    stored = read_numbers(data, 3)
    if stored.dtype != np.uint16:
        raise DecodeError(f"KITTI's flow must be a PNG of 16 bits, got {stored.dtype.name}")
    flow = (stored[..., :2].astype(np.float32) - np.float32(_KITTI_ZERO)) / np.float32(_KITTI_SCALE)
    flow[stored[..., 2] == 0] = np.nan
    return flow
