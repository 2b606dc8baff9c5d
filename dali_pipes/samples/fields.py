"""Read further fields of samples for a batch: text, JSON, numbers, arrays, or the result of a user's function."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dali_pipes.arguments.values import refuse
from dali_pipes.errors import LoaderError
from dali_pipes.samples.read_field import FieldError, missing_field, read_field, require_batch_names
from gpu_aug.upload import upload
from readers import Sample
from readers.image.raw_pixels import read_npy
from readers.sample import FieldTypes, Payload

Values = tuple[Any, ...]
"""The values of a sample's fields, in the order in which the reader has their names."""

# The first bytes of every NumPy file.
_NPY = b"\x93NUMPY"


@dataclass(frozen=True, slots=True)
class Field:
    """How to read one field of the samples, for ``Loader(fields={name: Field(...)})``.

    Numbers (`int`, `float`), and everything with `dtype` and `shape`, are stacked to one tensor on the loader's device.
    Everything else is a list with one value per sample, on the CPU.

    Args:
        read: Conversion of the bytes to a value:
            `str`: UTF-8 text, unchanged (a line feed at the end stays);
            `int`, `float`: a number in digits; stacked to int64 [B] and float32 [B];
            `bytes`: unchanged; with `dtype` and `shape`, the numbers of an array in the machine's byte order;
            `numpy.ndarray`: a NumPy file, or a number or list of numbers in JSON, becomes a tensor;
            "json": any JSON;
            a function of the bytes, such as a tokeniser: it runs in the loader's threads, and must be importable
            for ``Execution(helper_process=True)``. An exception that it raises makes the sample a bad one.
        dtype: Type of the tensors; only with arrays, bytes and functions.
        shape: Shape of each sample's tensor; only together with `dtype`.
        pad: Number that fills up arrays smaller than `shape` at the end of each axis; None refuses them.
        default: The value for a sample without the field, after conversion. Without a default (...) such a sample is
            bad, and data in which no sample has the field raises an error.

    Raises:
        LoaderError: The arguments contradict each other.

    Example:
        >>> Field(float).shape, Field(str, default="").default
        ((), '')
        >>> Field(np.ndarray, dtype=torch.float32, shape=(512,))
        Field(...)
    """

    read: Any = str
    dtype: torch.dtype | None = None
    shape: tuple[int, ...] | None = None
    default: Any = ...
    pad: float | None = None

    def __post_init__(self) -> None:
        is_known = callable(self.read) or (isinstance(self.read, str) and self.read in _READERS)
        if is_known and self.read in _NUMBERS and self.dtype is None and self.shape is None:
            object.__setattr__(self, "dtype", _NUMBERS[self.read])
            object.__setattr__(self, "shape", ())
        if self.shape is not None:
            object.__setattr__(self, "shape", tuple(self.shape))
        refuse(
            (
                not is_known,
                f"Field(read={self.read!r}) is not known; give str, int, float, bytes, numpy.ndarray, "
                f'"json", or a function of the bytes',
            ),
            (
                self.dtype is not None and self.read in (str, "json"),
                f"Field(read={self.read!r}, dtype=...) is not a number; read it as numpy.ndarray",
            ),
            (
                self.shape is not None and self.dtype is None,
                f"Field(shape={self.shape}) lacks a dtype; give dtype=torch.float32",
            ),
            (
                self.pad is not None and self.shape is None,
                f"Field(pad={self.pad!r}) lacks a shape to fill up; give shape=(...) and dtype",
            ),
            (
                self.read is bytes and self.dtype is not None and self.shape is None,
                "Field(bytes, dtype=...) lacks a shape; give shape=(...)",
            ),
        )
        if self.default is not ...:
            try:
                self.declared(self.default)
            except (ValueError, TypeError, RuntimeError) as error:
                raise LoaderError(
                    f"Field(default={self.default!r}) does not fit: {error}"
                ) from None

    def value(self, payload: Payload) -> Any:
        """Convert the field's bytes of one sample to the field's value.

        Raises:
            FieldError: The bytes do not fit the declaration. Damaged bytes, and functions of the user, may raise any
                other error; see `read_field`.
        """
        data = bytes(payload)
        if self.read is bytes and self.dtype is not None and self.shape is not None:
            return torch.frombuffer(bytearray(data), dtype=self.dtype).view(self.shape)
        return self.declared(_READERS.get(self.read, self.read)(data))

    def declared(self, value: Any) -> Any:
        """Return a value as a tensor of the declared dtype and shape; if none are declared, return the value unchanged.

        Raises:
            ValueError: The value does not have the declared shape, or is not a number. torch may also raise TypeError
                and RuntimeError.
        """
        if self.dtype is None or (value is None and self.shape is None):
            return value
        tensor = torch.as_tensor(value, dtype=self.dtype)
        is_number = isinstance(value, float | torch.Tensor) and tensor.is_floating_point()
        # Detects finite numbers that the conversion made infinite; the source is only checked if a number is infinite now.
        if (
            is_number
            and tensor.isinf().any()
            and (tensor.isinf() & torch.as_tensor(value, dtype=torch.float64).isfinite()).any()
        ):
            raise FieldError(f"it holds a number that does not fit {self.dtype}: scale it")
        if self.pad is not None and self.shape is not None:
            tensor = _padded(tensor, self.shape, self.pad)
        if self.shape is not None and tuple(tensor.shape) != self.shape:
            raise FieldError(
                f"it has the shape {list(tensor.shape)}, declared is {list(self.shape)}"
            )
        return tensor

    def together(self, values: Sequence[Any], device: torch.device) -> torch.Tensor | list[Any]:
        """Return the values of a batch: a tensor ``[B, *shape]`` on the device, or a list of B values."""
        if self.shape is None:
            return list(values)
        if not values:
            return torch.empty((0, *self.shape), dtype=self.dtype, device=device)
        return upload(torch.stack(list(values)), device)


@dataclass(frozen=True, slots=True)
class FieldReader:
    """Reads the fields that a loader requests.

    Args:
        fields: For each field's name in the batch, how to read it.
    """

    fields: Mapping[str, Field]

    def __bool__(self) -> bool:
        return bool(self.fields)

    def read(self, sample: Sample) -> Values:
        """Return the values of a sample's fields.

        Raises:
            FieldError: A field is missing or cannot be read.
        """
        return tuple(_read(sample, name, field) for name, field in self.fields.items())

    def collate(
        self, values: Sequence[Values], device: torch.device
    ) -> dict[str, torch.Tensor | list[Any]]:
        """Return the entries of `Batch.fields` by name, from the values of each sample."""
        return {
            name: field.together([of_sample[number] for of_sample in values], device)
            for number, (name, field) in enumerate(self.fields.items())
        }


def as_reader(
    given: Iterable[str] | Mapping[str, Any] | None, types: FieldTypes | None = None
) -> FieldReader:
    """Return the reader for the loader's argument `fields`.

    Args:
        given: Names, or a dictionary from names to Field, to an argument of Field, or to None; None for no fields.
        types: The dataset's types of fields, used for fields that are given by name only.

    Raises:
        LoaderError: A name is reserved for Batch, or the way of reading is unknown.
    """
    if given is None:
        return FieldReader({})
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise LoaderError(
            f'fields={given!r} is not allowed; give names, such as ["caption"], or a dictionary'
        )
    ways = ways_of(given)
    require_batch_names("fields", ways)
    return FieldReader({name: _as_field(name, way, types or {}) for name, way in ways.items()})


def ways_of(given: Iterable[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return for each name how to read the field, `read_untyped` for one that is given by name only, or with None."""
    ways = given if isinstance(given, Mapping) else dict.fromkeys(given)
    return {name: read_untyped if way is None else way for name, way in ways.items()}


def read_untyped(data: bytes) -> Any:
    """Read a field that was given by name only: text, or a NumPy file.

    Raises:
        ValueError: The bytes are neither text nor a NumPy file.
    """
    # Recognised even with a damaged first byte; otherwise it would be taken for text.
    if data[1 : len(_NPY)] == _NPY[1:]:
        return _array(data)
    return data.decode()


def _as_field(name: str, way: Any, types: FieldTypes) -> Field:
    if isinstance(way, Field):
        return way
    if way is not read_untyped:
        return Field(way)
    if name in types:
        dtype, shape = types[name]
        return Field(np.ndarray, dtype=getattr(torch, dtype), shape=shape)
    return Field(_BY_ENDING.get(name.rpartition(".")[2], way))


def _read(sample: Sample, name: str, field: Field) -> Any:
    if name in sample.fields:
        return read_field(sample.fields, name, field.value)
    if field.default is ...:
        raise FieldError(
            f"{missing_field(name, sample.fields)}; for samples without it give Field(default=...)"
        )
    return field.declared(field.default)


def _padded(tensor: torch.Tensor, shape: tuple[int, ...], value: float) -> torch.Tensor:
    """Return a tensor filled up to a shape at the end of each axis; unchanged if it is larger, or has other axes."""
    if tensor.ndim != len(shape) or any(map(int.__gt__, tensor.shape, shape)):
        return tensor
    filled = torch.full(shape, value, dtype=tensor.dtype)
    filled[tuple(map(slice, tensor.shape))] = tensor
    return filled


def _array(data: bytes) -> torch.Tensor:
    if data.startswith(_NPY):
        array = read_npy(data)
    else:
        array = np.asarray(json.loads(data))
        if array.dtype == np.float64:
            with np.errstate(over="raise"):  # raises a FloatingPointError that names the overflow
                array = array.astype(np.float32)
    if array.dtype.kind not in "biuf":
        raise FieldError(f"it is an array of {array.dtype}, not of numbers")
    return torch.from_numpy(np.array(array, array.dtype.newbyteorder("="), order="C"))


_READERS: dict[Any, Callable[[bytes], Any]] = {
    str: bytes.decode,
    int: int,
    float: float,
    bytes: bytes,
    np.ndarray: _array,
    "json": json.loads,
}
# How to read fields that are given by name only, by file extension.
_BY_ENDING = {"json": "json", "npy": np.ndarray}
_NUMBERS = {int: torch.int64, float: torch.float32}
