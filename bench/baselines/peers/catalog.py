"""List the peers (loaders of other projects) and their packages, and make a virtual environment for each of them."""

import re
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import MappingProxyType

_REASON = "why-not.txt"  # file in an environment whose installation failed, with the reason
_COMPLETE = "complete"

FFMPEG = "ffmpeg"
"""Folder in the environment of a peer that shares no packages: links to the libraries of FFmpeg in PyAV's wheel."""

_CPU_WHEELS = "https://download.pytorch.org/whl/cpu"  # PyPI's wheels for Linux bring 5 GB of CUDA

ENVIRONMENTS = Path(".peers")
"""The folder with one virtual environment per peer, in the current working directory."""

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Peer:
    """A library that gpu-aug does not depend on.

    Attributes:
        distribution: Name of its package in the package index; if this interpreter has the package, no environment is
            needed.
        megabytes: Size of its environment without torch, which is shared; measured on Linux x86-64.
        command: The command that installs it; with "" `bench compare` does.
        alone: Whether its environment has its own packages only, because their versions exclude ours. torch is then
            installed again, for the CPU where its package index can be reached.
    """

    distribution: str
    megabytes: int
    command: str = ""
    alone: bool = False


PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "decord2": Peer("decord2", 98),
        "grain": Peer("grain", 26),
        "imread": Peer("ajpegli", 150, "gpu-aug bench published imread --install"),
        "lerobot": Peer("lerobot", 2300, alone=True),
        "litdata": Peer("litdata", 28),
        "mosaic-streaming": Peer("mosaicml-streaming", 800),
        "spdl": Peer("spdl", 67),
        "tensorflow": Peer("tensorflow-cpu", 1420, "gpu-aug bench published imread --install"),
        "webdataset": Peer("webdataset", 26),
    }
)


def requirements(name: str) -> Path:
    """Return the file that lists the packages of a peer with their versions."""
    return _HERE / name.replace("-", "_") / "requirements.txt"


def pinned_versions(name: str) -> dict[str, str]:
    """Return the versions of the packages in the environment of a peer, by name."""
    lines = requirements(name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def environment(name: str) -> Path:
    """Return the folder of a peer's virtual environment, which may not exist."""
    return (ENVIRONMENTS / name).absolute()


def python_of(folder: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def has_package(name: str) -> bool:
    """Return whether this interpreter has the package of a peer, which then needs no environment."""
    try:
        metadata.distribution(PEERS[name].distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def is_ready(name: str) -> bool:
    """Return whether a peer can be started; "" stands for a contestant that needs no peer's packages."""
    return not name or has_package(name) or not why_not(name)


def why_not(name: str) -> str:
    """Return the reason why the environment of a peer cannot be used; "" if it is complete."""
    folder = environment(name)
    if (folder / _REASON).is_file():
        return f"cannot be installed: {(folder / _REASON).read_text(encoding='utf-8')}"
    if not (folder / _COMPLETE).is_file():
        command = PEERS[name].command or f"gpu-aug bench compare DATA --peers {name}"
        return f"not installed: {command} installs it"
    return ""


def install_peers(names: Sequence[str], progress: Callable[[str], object]) -> None:
    """Build the environments of some peers, replacing existing ones; `why_not` returns the result of each.

    Args:
        names: Keys of `PEERS`.
        progress: Called with a line of text when the build of a peer starts.
    """
    for name in names:
        progress(f"installing {name} into {environment(name)}")
        build(environment(name), requirements(name), alone=PEERS[name].alone)


def build(folder: Path, packages: Path, *, alone: bool = False) -> str:
    """Create a virtual environment and install the packages of a requirements file.

    All packages of this interpreter can be imported, too, after the environment's own packages. So torch is not
    downloaded or stored again. With `alone` they cannot, and PyAV's libraries of FFmpeg are linked for torchcodec.

    Returns:
        The reason why the build failed, in one line; "" on success.
    """
    shutil.rmtree(folder, ignore_errors=True)
    failure = _run(sys.executable, "-m", "venv", str(folder))
    if not failure:
        pip = [str(python_of(folder)), "-m", "pip", "install", "--disable-pip-version-check"]
        if alone:
            # Without the second index, pip goes on, but asks it for each of a hundred packages.
            pip += ["--extra-index-url", _CPU_WHEELS, "--retries", "1"]
        else:
            _reuse_packages(folder)
        failure = _run(*pip, "--requirement", str(packages))
    if alone and not failure:
        link_ffmpeg(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / (_REASON if failure else _COMPLETE)).write_text(failure, encoding="utf-8")
    return failure


def _reuse_packages(folder: Path) -> None:
    """Make this interpreter's packages visible in the environment, including those of editable installs."""
    # A plain path in a .pth file would not process the .pth files of that folder; addsitedir does.
    lines = [f"import site; site.addsitedir({packages!r})\n" for packages in site.getsitepackages()]
    (_site_packages(folder) / "_reuse.pth").write_text("".join(lines), encoding="utf-8")


def link_ffmpeg(folder: Path) -> None:
    """Link the libraries of FFmpeg in PyAV's wheel under their usual names, by which torchcodec loads them.

    The wheel has them as ``libavcodec-7ee0753d.so.61.19.101``; torchcodec asks for ``libavcodec.so.61``.
    """
    links = folder / FFMPEG
    links.mkdir(exist_ok=True)
    for library in (_site_packages(folder) / "av.libs").glob("lib*"):
        usual = re.sub(r"^(lib(?:av|sw)\w+)-\w+\.so\.(\d+).*", r"\1.so.\2", library.name)
        for name in {usual, library.name}:  # they load each other by the names of the wheel
            (links / name).unlink(missing_ok=True)
            (links / name).symlink_to(library)


def _site_packages(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))


def _run(*command: str) -> str:
    """Run a command; return "" on success, else the line that describes the error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    telling = [line for line in lines if line.split(":")[0].endswith("Error")]
    telling = telling or [line for line in lines if line.lower().startswith("error")] or lines[-1:]
    return telling[-1] if telling else f"{command[1]} ended with {done.returncode}"
