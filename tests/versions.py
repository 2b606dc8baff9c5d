"""Run the tests with the oldest or the newest versions that pyproject.toml allows: python tests/versions.py oldest.

It makes an environment in a temporary folder, installs what the set says and this checkout, runs the tests of what
depends on versions, and prints a line for CONTRIBUTING.md.
"""

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = {"oldest": ("3.11",), "newest": ("3.14", "3.13", "3.12")}
TOOLS = ("pytest>=9", "pytest-xdist>=3.8", "hypothesis>=6", "scikit-image>=0.26", "pyyaml>=6")
EXTRAS = ("cuda12", "arrow", "video", "zstd", "hdf5", "tiff", "remote")
TESTS = (
    "gpu_aug/engines/fused",  # Triton's and Numba's compilers, also for a GPU that is not there
    "gpu_aug/engines/test_engines.py",
    "gpu_aug/convert",
    "gpu_aug/targets",
    "gpu_aug/test_draws.py",
    "gpu_aug/test_recipe.py",
    "dali_pipes/decode",
    "dali_pipes/stages",
    "dali_pipes/test_elastic.py",
    "dali_pipes/test_loader.py",
    "dali_pipes/test_state.py",
    "readers/formats/test_tar.py",
    "readers/order/test_shuffle.py",
    "test_states.py",
)
"""What is run unless other tests are named."""
_SHOWN = ("torch", "triton", "numpy", "numba", "albumentations", "kornia")
_TELL = f"""
import sys
from importlib import metadata
names = [*{_SHOWN}, "nvidia-dali-cuda120", "nvidia-dali-cuda130"]
installed = {{one.metadata["Name"]: one.version for one in metadata.distributions()}}
told = [f"{{name}} {{installed[name]}}" for name in names if name in installed]
print("Python", ".".join(map(str, sys.version_info[:3])) + ",", ", ".join(told))
"""


def requirements(which: str) -> list[str]:
    """What pip is asked for: the oldest series of each package, such as ``torch==2.11.*``, or no bound but ours."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    if which == "newest":
        return [*asked, *TOOLS]
    return [*(re.sub(r">=([\d.]+)[^;]*", r"==\1.*", line) for line in asked), *TOOLS]


def find_python(which: str) -> str:
    """An interpreter for a set.

    Raises:
        SystemExit: There is none.
    """
    for version in PYTHONS[which]:
        others = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        if found := shutil.which(f"python{version}") or (others and str(others[-1])):
            return found
    wanted = " or ".join(PYTHONS[which])
    sys.exit(f"there is no Python {wanted} here: install one, or name it with --python")


def make_environment(python: str, which: str, folder: Path) -> str:
    """Install a set, and return its interpreter."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    made = str(folder / "bin" / "python")
    install = [made, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, *requirements(which)], check=True)
    subprocess.run([*install, "--no-deps", "-e", str(ROOT)], check=True)
    return made


def run_tests(python: str, words: list[str]) -> int:
    """Run pytest with an interpreter, and print the line for the table."""
    tests = words or [f"tests/{path}" for path in TESTS]
    command = [python, "-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider", *tests]
    lines: list[str] = []
    environment = {**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as running:
        for line in running.stdout or ():
            sys.stdout.write(line)
            lines.append(line.strip())
    told = subprocess.run([python, "-c", _TELL], capture_output=True, text=True, check=True)
    outcome = next((line for line in reversed(lines) if line), "nothing ran").strip("= ")
    date = datetime.date.today()
    sys.stdout.write(f"| {told.stdout.strip()} | {date}: {outcome} |\n")
    return running.returncode


def main() -> int:
    """Carry out what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=PYTHONS)
    parser.add_argument("--python", help="the interpreter to use")
    parser.add_argument("--here", action="store_true", help="take its packages as they are")
    given, words = parser.parse_known_args()
    python = given.python or find_python(given.which)
    if given.here:
        return run_tests(python, words)
    with tempfile.TemporaryDirectory(prefix="gpu-aug-versions-") as folder:
        return run_tests(make_environment(python, given.which, Path(folder)), words)


if __name__ == "__main__":
    sys.exit(main())
