"""Further fields of samples in a batch: text, JSON, numbers, arrays, or what a function makes of the bytes."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from dali_pipes.batch import Batch
from dali_pipes.errors import LoaderError, told
from gpu_aug.upload import upload
from readers import Sample
from readers.describe import describe
from readers.image.raw_pixels import read_npy
from readers.sample import FieldTypes, Payload
from readers.storage.blob.mapped import copied

Values = tuple[Any, ...]
"""The values of a sample's fields, in the order of the reader's names."""

_NPY = b"\x93NUMPY"
_MAX_SHOWN = 40


class FieldError(ValueError):
    """A field of one sample that cannot be read; the text is a short reason."""


@dataclass(frozen=True, slots=True)
class Field:
    """How one field of the samples is read and handed over, for ``Loader(fields={name: Field(...)})``.

    Numbers (`int`, `float`), and everything with `dtype` and `shape`, are stacked to one tensor on the loader's
    device. All else is a list with one value per sample, on the CPU.

    Args:
        read: How bytes become a value:
            `str`: UTF-8 text, as it is stored (a line feed at the end stays);
            `int`, `float`: a number in digits; stacked to int64 [B] and float32 [B];
            `bytes`: as they are; with `dtype` and `shape`, the numbers of an array in the machine's byte order;
            `numpy.ndarray`: a NumPy file, a number or list of numbers in JSON: a tensor;
            "json": whatever JSON holds;
            a function of the bytes, such as a tokeniser: it runs in the loader's threads, and must be importable
            for ``Execution(helper_process=True)``. What it raises makes the sample a bad one.
        dtype: Type of the tensors; for arrays, bytes and functions.
        shape: Shape of each sample's tensor; with `dtype`.
        default: What a sample without the field gets, as a finished value. Without a default (...) such a sample
            is bad, and data that lacks the field is refused.

    Raises:
        LoaderError: The arguments do not go together.

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

    def __post_init__(self) -> None:
        if not (callable(self.read) or (isinstance(self.read, str) and self.read in _READERS)):
            raise LoaderError(
                f"Field(read={self.read!r}) is not known; give str, int, float, bytes, numpy.ndarray, "
                f'"json", or a function of the bytes'
            )
        if self.read in _NUMBERS and self.dtype is None and self.shape is None:
            object.__setattr__(self, "dtype", _NUMBERS[self.read])
            object.__setattr__(self, "shape", ())
        if self.shape is not None:
            object.__setattr__(self, "shape", tuple(self.shape))
        if self.dtype is not None and self.read in (str, "json"):
            raise LoaderError(
                f"Field({_name(self.read)}, dtype=...) would be no number; read it as numpy.ndarray"
            )
        if self.shape is not None and self.dtype is None:
            raise LoaderError(f"Field(shape={self.shape}) lacks a dtype; give dtype=torch.float32")
        if self.read is bytes and self.dtype is not None and self.shape is None:
            raise LoaderError("Field(bytes, dtype=...) lacks a shape; give shape=(...)")
        if self.default is not ...:
            try:
                self.declared(self.default)
            except FieldError as error:
                raise LoaderError(
                    f"Field(default={self.default!r}) does not fit: {error}"
                ) from None

    def value(self, payload: Payload) -> Any:
        """Read one sample's bytes.

        Raises:
            FieldError: They are not what was declared.
        """
        data = _bytes(payload)
        if self.read is bytes and self.dtype is not None:
            return self._from_buffer(data)
        reader = _READERS.get(self.read, self.read)
        try:
            value = reader(data)
        except FieldError:
            raise
        except Exception as error:  # of the user's function, of this sample's bytes
            text = f"{_name(self.read)} raised {type(error).__name__}: {error}"
            raise FieldError(text if reader is self.read else told(error)) from error
        return self.declared(value)

    def declared(self, value: Any) -> Any:
        """Return a value as a tensor where one is declared.

        Raises:
            FieldError: It has not the declared shape, or is no number.
        """
        if self.dtype is None or (value is None and self.shape is None):
            return value
        try:
            tensor = torch.as_tensor(value, dtype=self.dtype)
        except (ValueError, TypeError, RuntimeError) as error:
            raise FieldError(f"it makes no tensor: {told(error)}") from None
        is_narrowed = isinstance(value, float | torch.Tensor) and tensor.dtype.is_floating_point
        if is_narrowed and _exceeds(value, tensor):
            raise FieldError(f"it holds a number that does not fit {self.dtype}: scale it")
        if self.shape is not None and tuple(tensor.shape) != self.shape:
            raise FieldError(
                f"it has the shape {list(tensor.shape)}, declared is {list(self.shape)}"
            )
        return tensor

    def together(self, values: Sequence[Any], device: torch.device) -> torch.Tensor | list[Any]:
        """Return the values of a batch as the batch has them."""
        if self.shape is None:
            return list(values)
        if not values:
            return torch.empty((0, *self.shape), dtype=self.dtype, device=device)
        return upload(torch.stack(list(values)), device)

    def _from_buffer(self, data: bytes) -> torch.Tensor:
        assert self.dtype is not None
        assert self.shape is not None
        needed = self.dtype.itemsize * int(np.prod(self.shape))
        if len(data) != needed:
            raise FieldError(f"it has {len(data)} bytes, {list(self.shape)} needs {needed}")
        flat = torch.frombuffer(bytearray(data), dtype=self.dtype) if data else torch.empty(0)
        return flat.view(self.shape)


@dataclass(frozen=True, slots=True)
class FieldReader:
    """Reads the fields that a loader is asked for.

    Args:
        fields: By name.
    """

    fields: Mapping[str, Field]

    def __bool__(self) -> bool:
        return bool(self.fields)

    def read(self, sample: Sample) -> Values:
        """Read the fields of a sample.

        Raises:
            FieldError: One of them is missing or cannot be read.
        """
        return tuple(_read(sample, name, field) for name, field in self.fields.items())

    def collate(
        self, values: Sequence[Values], device: torch.device
    ) -> dict[str, torch.Tensor | list[Any]]:
        """Put the fields of a batch together; see Batch."""
        return {
            name: field.together([each[number] for each in values], device)
            for number, (name, field) in enumerate(self.fields.items())
        }


def as_reader(
    given: Iterable[str] | Mapping[str, Any] | None, types: FieldTypes | None = None
) -> FieldReader:
    """Return the reader of what a loader was asked for.

    Args:
        given: Names, or a dictionary from names to Field or to what Field reads; None is nothing.
        types: What the dataset says of fields, for those of which only the name is given.

    Raises:
        LoaderError: A name is one of Batch's own, or what belongs to it is no way to read.
    """
    if given is None:
        return FieldReader({})
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise LoaderError(
            f'fields={given!r} is not allowed; give names, such as ["caption"], or a dictionary'
        )
    ways = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, as_told)
    taken = [own.name for own in fields(Batch)]
    for name in ways:
        if not isinstance(name, str) or name in taken:
            raise LoaderError(
                f"fields={name!r} is not allowed: batch.{name} is something else; give the data's column another name"
                if name in taken
                else f"fields has the name {name!r}; give text"
            )
    return FieldReader({name: _as_field(name, way, types or {}) for name, way in ways.items()})


def as_told(data: bytes) -> Any:
    """Read a field of which only the name was given: text, or a NumPy file.

    Raises:
        FieldError: It is neither, or a list or object of JSON, which may be meant as such or as text.
    """
    if (
        data[1 : len(_NPY)] == _NPY[1:]
    ):  # also with a damaged first byte, behind which it would be text
        return _npy(data)
    text = _text(data)
    if text.lstrip()[:1] in ("[", "{"):
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return text
        raise FieldError(
            f'it reads as JSON, {_short(text)}: say how to take it, {{name: "json"}}, {{name: str}} or '
            f"{{name: Field(numpy.ndarray, dtype=torch.float32, shape=(...))}}"
        )
    return text


def _as_field(name: str, way: Any, types: FieldTypes) -> Field:
    if isinstance(way, Field):
        return way
    if way is as_told and name in types:
        dtype, shape = types[name]
        return Field(np.ndarray, dtype=getattr(torch, dtype), shape=shape)
    return Field(_BY_ENDING.get(name.rpartition(".")[2], way) if way is as_told else way)


def _read(sample: Sample, name: str, field: Field) -> Any:
    payload = sample.fields.get(name)
    if payload is None:
        if field.default is ...:
            there = ", ".join(sample.fields) or "none"
            raise FieldError(
                f"the field {name!r} is missing (there are {there}): give Field(default=...)"
            )
        return field.declared(field.default)
    try:
        return field.value(copied(payload))
    except (FieldError, OSError) as error:
        raise FieldError(f"the field {name!r}: {error}") from error


def _bytes(payload: Any) -> bytes:
    if not isinstance(payload, bytes | bytearray | memoryview):
        kind = "text" if isinstance(payload, str) else describe(payload)
        raise FieldError(
            f"it is {kind}, and a dataset hands fields over as bytes: encode it, or derive the dataset "
            "from readers.CustomDataset, which does"
        )
    return bytes(payload)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FieldError(
            f"it is no UTF-8 text, it begins with {data[:8]!r}: read it as bytes or numpy.ndarray"
        ) from None


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FieldError(f"it is no JSON: {error}") from None


def _npy(data: bytes) -> torch.Tensor:
    if not data.startswith(_NPY):
        raise FieldError(f"it is no NumPy file, it begins with {data[: len(_NPY)]!r}")
    return _array(data)


def _array(data: bytes) -> torch.Tensor:
    if data.startswith(_NPY):
        try:
            array = read_npy(data)
        except Exception as error:  # noqa: BLE001, whatever Python's own parser makes of a header
            raise FieldError(f"it is a damaged NumPy file: {told(error)}") from None
    else:
        array = np.asarray(_json(data))
        if array.dtype == np.float64:
            with np.errstate(over="raise"):  # a FloatingPointError, which tells of the overflow
                array = array.astype(np.float32)
    if array.dtype.kind not in "biuf":
        raise FieldError(f"it is no array of numbers but of {array.dtype}")
    return torch.from_numpy(np.array(array, array.dtype.newbyteorder("="), order="C"))


def _exceeds(value: float | torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether a number became infinite when it was made one of a tensor's type."""
    if isinstance(value, float):
        return math.isfinite(value) and abs(value) > torch.finfo(tensor.dtype).max
    return value.itemsize > tensor.itemsize and bool((tensor.isinf() & value.isfinite()).any())


def _short(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}...")


def _name(read: Any) -> str:
    return repr(read) if isinstance(read, str) else str(getattr(read, "__name__", read))


_READERS: dict[Any, Callable[[bytes], Any]] = {
    str: _text,
    int: lambda data: int(_text(data)),
    float: lambda data: float(_text(data)),
    bytes: bytes,
    np.ndarray: _array,
    "json": _json,
}
_BY_ENDING = {"json": "json", "npy": _npy}
_NUMBERS = {int: torch.int64, float: torch.float32}
