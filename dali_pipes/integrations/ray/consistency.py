"""Check that workers have the code and data of the training process; otherwise their batches would differ."""

import hashlib
import pickle
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from dali_pipes.errors import ClusterError
from readers import BadSample, Dataset, Sample
from readers.storage.copies import copied_sample

_PACKAGES = ("dali_pipes", "gpu_aug", "readers")
# Libraries that decode, draw, compute pixels or transport results. OpenCV is checked by its module: several packages contain it.
_LIBRARIES = (
    *("numpy", "torch", "ray", "albumentations", "av", "imagecodecs", "kornia", "numba", "pillow"),
    *("pillow-heif", "pycocotools", "tifffile", "torchvision"),
)
_CODE_ADVICE = (
    "install the same on all machines, or send the code with "
    "ray.init(runtime_env={'py_modules': [readers, gpu_aug, dali_pipes]})"
)
_DATA_ADVICE = "give paths or URLs that every machine of the cluster can reach, with the same data"
# The first MiB of a field is enough to distinguish files; videos may have gigabytes.
_DIGESTED_BYTES = 1 << 20


@cache
def versions() -> dict[str, str]:
    """Return the versions that affect results: Python, the libraries, and a digest of our own code."""
    digest = hashlib.sha256()
    for name in _PACKAGES:  # code that Ray has sent is in a separate folder per package
        [home] = import_module(name).__path__
        for path in sorted(Path(home).rglob("*.py")):
            inside = path.relative_to(home).as_posix()
            digest.update(f"{name}/{inside}\n".encode() + path.read_bytes())
    return {
        "gpu-aug": f"{_version('gpu-aug')} ({digest.hexdigest()[:12]})",
        "Python": platform.python_version(),
        **{name: _version(name) for name in _LIBRARIES},
        "OpenCV": _opencv_version(),
    }


def require_same_versions(driver: Mapping[str, str]) -> None:
    """Raise if the versions on this worker differ from those of the driver.

    Args:
        driver: The driver's result of `versions`.

    Raises:
        ClusterError: Versions differ; the message names them and this machine.
    """
    here = versions()
    other = [
        name for name, version in driver.items() if _decisive(here.get(name)) != _decisive(version)
    ]
    if other:
        words = ", ".join(f"{name} {here.get(name)} instead of {driver[name]}" for name in other)
        raise ClusterError(f"{this_worker()} has {words}: {_CODE_ADVICE}")


def missing_code(error: BaseException) -> ClusterError | None:
    """Return an error with advice if a Ray error means that a worker could not import our code; else None."""
    text = str(error).strip()
    if "failed to import" not in text:
        return None
    return ClusterError(f"a worker cannot import gpu-aug ({text.splitlines()[-1]}): {_CODE_ADVICE}")


def this_worker() -> str:
    """Return a name of this process for errors that a worker sends to its driver."""
    return f"the worker on {platform.node()}"


def unpickled(data: bytes | memoryview, what: str) -> Any:
    """Return an object that the driver has pickled.

    Args:
        data: The pickle.
        what: Description of the object, for the error message.

    Raises:
        ClusterError: The worker cannot open its data or import its code.
    """
    try:
        return pickle.loads(data)
    except Exception as error:
        raise ClusterError(
            f"{this_worker()} cannot open {what} ({type(error).__name__}: {error}): give paths or URLs that every machine of "
            "the cluster can reach, with the credentials for them, and code that is installed there"
        ) from error


@dataclass(frozen=True, slots=True)
class Probe:
    """Some samples of a dataset, to compare the data that two machines read.

    Attributes:
        length: Count of samples of the dataset.
        samples: For the index of each probed sample, its key and the digest of its fields; the digest is None if the
            sample cannot be read.
    """

    length: int
    samples: dict[int, tuple[str, str | None]]


def probe(dataset: Dataset) -> Probe:
    """Return the keys and digests of the first, the middle and the last sample of a dataset."""
    length = len(dataset)
    samples = {}
    for index in sorted({0, length // 2, length - 1}):
        with suppress(Exception):  # not an error here: the loop raises when it needs this sample
            [sample] = dataset.fetch([index])
            samples[index] = sample.key, _digest(sample)
    return Probe(length, samples)


def require_same_data(dataset: Dataset, expected: Probe) -> None:
    """Raise if a dataset has other content on this worker than `expected`, or cannot be read.

    Raises:
        ClusterError: The data differ or cannot be read; the message names this machine, the sample and the reason.
    """
    here = this_worker()
    if len(dataset) != expected.length:
        raise ClusterError(
            f"{here} finds {len(dataset)} samples in the dataset instead of {expected.length}: {_DATA_ADVICE}"
        )
    for index, (key, digest) in expected.samples.items():
        try:
            [sample] = dataset.fetch([index])
        except Exception as error:
            raise ClusterError(
                f"{here} cannot read {key} ({type(error).__name__}: {error}): {_DATA_ADVICE}"
            ) from error
        if digest is not None and isinstance(sample, BadSample):
            raise ClusterError(f"{here} cannot read {key} ({sample.reason}): {_DATA_ADVICE}")
        if digest not in (None, _digest(sample)):
            raise ClusterError(f"{here} reads other data as {key}: {_DATA_ADVICE}")


def _digest(sample: Sample | BadSample) -> str | None:
    """Return a digest of the fields of a sample; None if it cannot be read."""
    copy = sample if isinstance(sample, BadSample) else copied_sample(sample)
    if isinstance(copy, BadSample):
        return None
    digest = hashlib.sha256()
    for name, data in copy.fields.items():
        digest.update(f"{name} {len(data)}\n".encode() + bytes(data[:_DIGESTED_BYTES]))
    return digest.hexdigest()


def _decisive(version: str | None) -> str:
    """Return the part of a version to compare: for our own code its digest, because code sent by Ray has no release number."""
    return (version or "").rpartition(" ")[2]


def _opencv_version() -> str:
    try:
        return str(import_module("cv2").__version__)
    except ImportError:
        return "not installed"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
