"""Examine this machine: installed packages, the choices of a Loader, and missing parts. `gpu-aug doctor` prints it."""

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dali_pipes.machine.description import machine, versions
from readers.cores import usable_cores
from readers.detect.registry import FORMATS

# Optional extras for formats, and the module that each one installs.
_LIBRARIES = {
    "arrow": "pyarrow",
    "hdf5": "h5py",
    "arrayrecord": "array_record",
    "remote": "obstore",
    "zstd": "zstandard",
    "tiff": "tifffile",
    "images": "imagecodecs",
    "heic": "pillow_heif",
    "lance": "lance",
    "delta": "deltalake",
    "iceberg": "pyiceberg",
    "hf": "huggingface_hub",
}
# Oldest supported driver by CUDA version, from the installation guide of DALI 2.4.
_OLDEST_DRIVERS = {12: 525, 13: 580}


@dataclass(frozen=True)
class Finding:
    """One finding about this machine, a line of the report.

    Attributes:
        subject: The part that was examined.
        found: The state of that part.
        advice: What to do to improve it; "" if nothing is missing.
    """

    subject: str
    found: str
    advice: str = ""


def examine() -> Iterator[Finding]:
    """Yield findings about everything that determines what can run here, and how fast.

    Example:
        >>> from dali_pipes.machine.doctor import examine
        >>> advice = {finding.subject: finding.advice for finding in examine()}
    """
    for name, version in versions().items():
        yield Finding(name, version)
    facts = machine()
    yield Finding("processor", f"{facts['cpu']}, {facts['memory_gib']} GiB of memory")
    yield Finding(
        "threads",
        f"{usable_cores()} cores this process may use; a loader takes as many, under torchrun its rank's share",
    )
    yield _cuda()
    yield _dali()
    yield from _torch_and_dali()
    yield _cpu_decoder()
    yield judge_image_packages(versions(("pillow", "imagecodecs", "pillow-heif")))
    yield _videos()
    yield from _videos_on_gpu()
    yield _formats()
    yield _package("engine fused", "numba")
    yield _package("engine kornia", "kornia")
    yield _package("engine albumentations", "albumentations")
    yield _compiled()
    yield _chosen()


def _cuda() -> Finding:
    import torch

    if torch.cuda.is_available():
        name, driver = torch.cuda.get_device_name(), machine()["driver"]
        return Finding("CUDA", f"{name}, driver {driver}, torch built for {torch.version.cuda}")
    if torch.version.cuda is None:
        return Finding(
            "CUDA", "torch is built without it", "install a CUDA build of torch to use a GPU"
        )
    return Finding(
        "CUDA", f"torch is built for {torch.version.cuda} and sees no GPU; batches stay on the CPU"
    )


def _dali() -> Finding:
    from dali_pipes import available_decoders

    reason = available_decoders()["dali"]
    if reason:
        return Finding("decoder dali", "missing", reason)
    try:
        dali = importlib.import_module("nvidia.dali")
    except (ImportError, OSError) as error:
        return Finding(
            "decoder dali",
            f"installed, and cannot be imported: {error}",
            "install it again: pip install --force-reinstall 'gpu-aug[cuda12]'",
        )
    return Finding("decoder dali", f"NVIDIA DALI {dali.__version__}")


def _torch_and_dali() -> Iterator[Finding]:
    """Examine whether torch and DALI are built for the same version of CUDA, if both are installed."""
    import torch

    installed, torch_cuda = versions(), torch.version.cuda
    builds = [major for major in _OLDEST_DRIVERS if f"nvidia-dali-cuda{major}0" in installed]
    if builds and torch_cuda is not None:
        driver = machine()["driver"] if torch.cuda.is_available() else None
        yield judge_pair(int(torch_cuda.split(".")[0]), builds[0], driver)


def judge_pair(torch_cuda: int, dali_cuda: int, driver: object) -> Finding:
    """Return what is known about using torch and DALI, built for these CUDA versions, in one process.

    Args:
        torch_cuda: The major CUDA version that torch is built for.
        dali_cuda: The major CUDA version that DALI is built for.
        driver: The version of NVIDIA's driver, such as "580.65.06"; None without a GPU.
    """
    subject = "torch and DALI"
    needed = max(_OLDEST_DRIVERS.get(major, 0) for major in (torch_cuda, dali_cuda))
    found = f"for CUDA {torch_cuda} and {dali_cuda}; a driver {needed} or newer serves both"
    if driver is None:
        return Finding(subject, f"{found}; without a GPU this does not matter")
    if int(str(driver).split(".")[0]) < needed:
        return Finding(
            subject, f"{found}, got {driver}", f"install NVIDIA's driver {needed} or newer"
        )
    if torch_cuda == dali_cuda:
        return Finding(subject, found)
    return Finding(
        subject,
        f"{found}; each loads CUDA libraries of its own, which is untested on a GPU",
        f"for a pair of one version: pip uninstall nvidia-dali-cuda{dali_cuda}0, then "
        f"pip install nvidia-dali-cuda{torch_cuda}0",
    )


def _cpu_decoder() -> Finding:
    from dali_pipes.decode.opencv import opencv_for

    cv2, subject = opencv_for("gif"), "decoder cpu"
    if cv2 is not None:
        return Finding(subject, f"our own for JPEGs, OpenCV {cv2.__version__} for the rest")
    return Finding(
        subject,
        "our own for JPEGs, Pillow for GIF, and for other formats if OpenCV is missing or older than 4.11",
        "for the faster decoder of the rest: pip install 'opencv-python-headless>=4.12'",
    )


def judge_image_packages(installed: Mapping[str, str]) -> Finding:
    """Return which of AVIF, HEIC, JPEG XL and JPEG 2000 can be read.

    Args:
        installed: The versions of pillow, imagecodecs and pillow-heif that are installed, by name.
    """
    rows = (
        ("imagecodecs", "JPEG XL, AVIF and JPEG 2000 of all bits", "images"),
        ("pillow-heif", "HEIC", "heic"),
    )
    # Pillow is always installed, and reads these where imagecodecs is missing.
    small = () if "imagecodecs" in installed else (("pillow", "AVIF and JPEG 2000 of 8 bits", ""),)
    found = [f"{reads} by {name} {installed[name]}" for name, reads, _ in (*small, *rows) if name in installed]  # fmt: skip
    advice = [f"for {reads}: pip install 'gpu-aug[{extra}]'" for name, reads, extra in rows if name not in installed]  # fmt: skip
    return Finding("images", "; ".join(found), "; ".join(advice))


def _package(subject: str, package: str) -> Finding:
    """Examine whether a package is installed."""
    version = versions().get(package)
    if version is None:
        return Finding(subject, "missing", f"pip install {package}")
    return Finding(subject, f"{package} {version}")


def _videos() -> Finding:
    """Examine the video decoder on the CPU."""
    try:
        av = importlib.import_module("av")
    except ImportError:
        return Finding("videos", "PyAV is missing", "to read videos: pip install 'gpu-aug[video]'")
    return Finding("videos", f"PyAV {av.__version__} with FFmpeg {av.ffmpeg_version_info}")


def _videos_on_gpu() -> Iterator[Finding]:
    """Examine the video decoder of the GPU; yield nothing without a GPU."""
    import torch

    from dali_pipes.video.dali.nvdec import find_nvdec

    if torch.cuda.is_available():
        nvdec = find_nvdec(torch.cuda.current_device())
        usable = f"NVDEC, at most {nvdec.engines} videos at once"
        found = "NVDEC cannot be used" if nvdec.problem else usable
        yield Finding("videos on the GPU", found, nvdec.problem or "")


def _formats() -> Finding:
    """Examine which formats can be read."""
    missing = [
        extra for extra, name in _LIBRARIES.items() if importlib.util.find_spec(name) is None
    ]
    titles = [kind.title for kind in FORMATS.values() if kind.extra not in missing]
    found = ", ".join(titles)
    advice = f"pip install 'gpu-aug[{','.join(missing)}]' reads more" if missing else ""
    return Finding("formats", found, advice)


def _compiled() -> Finding:
    """Examine the folder of compiled code."""
    from gpu_aug.compiled.cache import can_keep, folder

    stored_in = folder()
    if stored_in is None:
        advice = "set GPU_AUG_CACHE to a folder of your own that is writable"
        return Finding("compiled code", "cannot be stored: every process compiles", advice)
    number = sum(1 for _ in stored_in.glob("*.code"))
    found = f"{number} functions in {stored_in}{'' if can_keep() else ', which is read-only'}"
    advice = "" if number else "gpu-aug warm compiles everything beforehand"
    return Finding("compiled code", found, advice)


def _chosen() -> Finding:
    from dali_pipes.arguments.choose import choose

    return Finding('"auto" means', "; ".join(choose("auto", "auto", "auto").reasons))
