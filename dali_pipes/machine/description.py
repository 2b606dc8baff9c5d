"""Describe the machine of a measurement: versions, hardware and commit."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from readers.cores import usable_cores

# Packages whose version can change a result, by name on PyPI.
_PACKAGES = (
    "gpu-aug",
    "numpy",
    "torch",
    "torchvision",
    "kornia",
    "albumentations",
    "numba",
    "triton",
    "opencv-python-headless",
    "pillow",
    "av",
    "torchcodec",
    "decord",
    "nvidia-dali-cuda120",
    "nvidia-dali-cuda130",
    "nvidia-nvimgcodec-cu12",
    "nvidia-nvimgcodec-cu13",
    "webdataset",
)


def versions(names: Iterable[str] = _PACKAGES) -> dict[str, str]:
    """Return the versions of Python and of the packages that are installed, by name.

    Args:
        names: Names of packages on PyPI; when left out, those that can change a result.
    """
    found = {"python": platform.python_version()}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def machine() -> dict[str, object]:
    """Return a dictionary with the processor, cores, memory, GPU, driver and load of this machine."""
    return {
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "memory_gib": _memory_gib(),
        "gpu": _gpu_name(),
        "driver": _driver(),
        "system": platform.platform(),
        "load_1_minute": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def commit() -> str | None:
    """Return the commit of this checkout, with "+changes" if files differ from it.

    Outside of git it is the environment variable GPU_AUG_COMMIT, for copies of a checkout; None if that is not set.
    """
    head = _output("git", "rev-parse", "HEAD")
    if head is None:
        return os.environ.get("GPU_AUG_COMMIT")
    return head + ("+changes" if _output("git", "status", "--porcelain") else "")


def _output(*command: str) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    ran = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return ran.stdout.strip() if ran.returncode == 0 else None


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        size_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not POSIX, or sysconf does not know the name
        return None
    return round(size_bytes / 2**30, 1)


def _gpu_name() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def _driver() -> str | None:
    if sys.platform == "win32":
        return None
    driver = _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return driver.splitlines()[0] if driver else None
