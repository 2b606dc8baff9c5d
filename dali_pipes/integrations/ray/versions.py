"""Whether a worker has the code that its driver has."""

import hashlib
import platform
from functools import cache
from importlib import import_module, metadata
from pathlib import Path

from dali_pipes.errors import ClusterError

_PACKAGES = ("dali_pipes", "gpu_aug", "readers")
_OTHERS = ("numpy", "torch", "ray")
# They decode, draw or compute pixels, OpenCV beside them.
_PIXELS = (
    *("albumentations", "av", "imagecodecs", "kornia", "numba", "pillow", "pycocotools"),
    *("tifffile", "torchvision"),
)
_ADVICE = (
    "install the same on all machines, or send the code with "
    "ray.init(runtime_env={'py_modules': [readers, gpu_aug, dali_pipes]})"
)


@cache
def versions() -> dict[str, str]:
    """Name the versions that decide about results here: of Python, of the libraries, and of our own code by a digest."""
    digest = hashlib.sha256()
    for name in _PACKAGES:  # each in a folder of its own, where Ray has sent them
        [home] = import_module(name).__path__
        for path in sorted(Path(home).rglob("*.py")):
            inside = path.relative_to(home).as_posix()
            digest.update(f"{name}/{inside}\n".encode() + path.read_bytes())
    return {
        "gpu-aug": f"{_version('gpu-aug')} ({digest.hexdigest()[:12]})",
        "Python": platform.python_version(),
        **{name: _version(name) for name in (*_OTHERS, *_PIXELS)},
        "OpenCV": _opencv(),
    }


def missing_code(error: BaseException) -> ClusterError | None:
    """Return what to do about an error of Ray's, if it says that a worker could not import our code; else None."""
    words = str(error).strip()
    if "failed to import" not in words:
        return None
    return ClusterError(f"a worker cannot import gpu-aug ({words.splitlines()[-1]}): {_ADVICE}")


def require_same(driver: dict[str, str]) -> None:
    """Refuse to work for a driver of other versions.

    Args:
        driver: Its `versions`.

    Raises:
        ClusterError: One of them is another one here.
    """
    here = versions()
    other = [name for name in driver if _decides(here.get(name)) != _decides(driver[name])]
    if other:
        words = ", ".join(f"{name} {here.get(name)} instead of {driver[name]}" for name in other)
        raise ClusterError(f"the worker on {platform.node()} has {words}: {_ADVICE}")


def _decides(version: str | None) -> str:
    """The digest, where there is one: code that Ray has sent has no release."""
    return (version or "").rpartition(" ")[2]


def _opencv() -> str:
    """Of the module: several packages bring it."""
    try:
        return str(import_module("cv2").__version__)
    except ImportError:
        return "not installed"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
