"""Virtual environments for peers: each has its own packages, and falls back on those of this interpreter."""

import shutil
import site
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.baselines.peers.catalog import environment, peer_names, python_of, requirements
from bench.output.errors import BenchError

REASON = "why-not.txt"
"""Stands in an environment that could not be filled, and says why."""

_COMPLETE = "complete"


@dataclass(frozen=True)
class Installed:
    """The outcome of an installation; ``reason`` is empty when it is ready."""

    name: str
    reason: str


def install_peers(names: Sequence[str], progress: Callable[[str], None]) -> list[Installed]:
    """Build the environments of some peers, or of all when none is named, anew where they exist.

    Args:
        names: As in `peer_names`.
        progress: Gets a line of text for every peer that is begun.

    Raises:
        BenchError: There is no such peer.
    """
    for name in names:
        require_peer(name)
    results = []
    for name in names or peer_names():
        progress(f"installing {name} into {environment(name)}")
        reason = build(environment(name), requirements(name))
        results.append(Installed(name, reason))
    return results


def require_peer(name: str) -> None:
    """Refuse a name that is not a peer's.

    Raises:
        BenchError: With the names there are.
    """
    if name not in peer_names():
        raise BenchError(
            f"a peer must be one of {', '.join(peer_names())}, got {name!r}: choose one"
        )


def why_not(name: str) -> str:
    """Why a peer cannot be started here, or "" when its environment is complete."""
    folder = environment(name)
    if (folder / REASON).is_file():
        return (folder / REASON).read_text(encoding="utf-8")
    if not (folder / _COMPLETE).is_file():
        return f"not installed: gpu-aug bench install-peers {name}"
    return ""


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
    (folder / (REASON if failure else _COMPLETE)).write_text(failure, encoding="utf-8")
    return failure


def _reuse_packages(folder: Path) -> None:
    """Let the environment see this interpreter's packages, those of editable installs included."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run(
        [python_of(folder), "-c", ask], capture_output=True, text=True, check=True
    ).stdout.strip()
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
