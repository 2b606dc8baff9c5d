"""Virtual environments for peers: each has its own packages, and falls back on those of this interpreter."""

import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from bench.baselines.peers.catalog import PEERS, environment, python_of, requirements

_REASON = "why-not.txt"  # in an environment that could not be filled; says why
_COMPLETE = "complete"


def has_package(name: str) -> bool:
    """Whether this interpreter has the package of a peer, which then needs no environment."""
    try:
        metadata.distribution(PEERS[name].distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def is_ready(name: str) -> bool:
    """Whether a peer can be started; "" for a contestant that needs no peer's packages."""
    return not name or has_package(name) or not why_not(name)


def why_not(name: str) -> str:
    """Why the environment of a peer cannot be used, or "" when it is complete."""
    folder = environment(name)
    if (folder / _REASON).is_file():
        return f"cannot be installed: {(folder / _REASON).read_text(encoding='utf-8')}"
    if not (folder / _COMPLETE).is_file():
        return f"not installed: gpu-aug bench compare DATA --peers {name} installs it"
    return ""


def install_peers(names: Sequence[str], progress: Callable[[str], object]) -> None:
    """Build the environments of some peers, anew where they exist; `why_not` says how each ended.

    Args:
        names: Keys of `PEERS`.
        progress: Gets a line of text for every peer that is begun.
    """
    for name in names:
        progress(f"installing {name} into {environment(name)}")
        build(environment(name), requirements(name))


def build(folder: Path, packages: Path) -> str:
    """Make a virtual environment and install what a requirements file names.

    Everything that this interpreter has stays importable, behind the environment's own packages, so that
    torch is neither downloaded nor stored again.

    Returns:
        Why it did not work, in one line; "" when it did.
    """
    shutil.rmtree(folder, ignore_errors=True)
    failure = _run(sys.executable, "-m", "venv", str(folder))
    if not failure:
        _reuse_packages(folder)
        pip = [str(python_of(folder)), "-m", "pip", "install", "--disable-pip-version-check"]
        failure = _run(*pip, "--requirement", str(packages))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / (_REASON if failure else _COMPLETE)).write_text(failure, encoding="utf-8")
    return failure


def _reuse_packages(folder: Path) -> None:
    """Let the environment see this interpreter's packages, those of editable installs included."""
    own = sysconfig.get_path("purelib", "venv", {"base": str(folder)})
    # A plain path in a .pth file would not read the .pth files of that folder; addsitedir does.
    lines = [f"import site; site.addsitedir({packages!r})\n" for packages in site.getsitepackages()]
    (Path(own) / "_reuse.pth").write_text("".join(lines), encoding="utf-8")


def _run(*command: str) -> str:
    """Run a command; "" when it went well, else the line in which it says what went wrong."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    telling = [line for line in lines if line.split(":")[0].endswith("Error")]
    telling = telling or [line for line in lines if line.lower().startswith("error")] or lines[-1:]
    return telling[-1] if telling else f"{command[1]} ended with {done.returncode}"
