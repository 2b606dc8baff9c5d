"""Run the tests with one set of versions that pyproject.toml allows: python tests/versions.py oldest.

It makes an environment in a temporary folder, installs what the set says and this checkout, runs the tests of what
depends on versions, and prints a row for docs/versions.md.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Interpreters of each set, the first one that is here is used.
PYTHONS = {"oldest": ("3.11",), "middle": ("3.11",), "newest": ("3.14", "3.13", "3.12")}
# What a set asks for beyond the bounds of pyproject.toml; "oldest" asks for the lower bound of each package.
PINS: dict[str, dict[str, str]] = {
    "oldest": {},
    "middle": {
        "torch": "2.8.*",
        "torchvision": "0.23.*",
        "numpy": "2.2.*",
        "opencv-python-headless": "4.12.*",
        "kornia": "0.8.2",
        "av": "17.1.*",
    },
    "newest": {},
}
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
    "dali_pipes/video/test_decode.py",
    "readers/formats/test_tar.py",
    "readers/order/test_shuffle.py",
    "readers/video",
    "test_states.py",
)
"""What is run unless other tests are named."""
# Tests that compare with another library or write files by it, by the first version that passes them: with older ones they
# are left out. docs/versions.md says what differs for users.
LEFT_OUT = {
    "torch>=2.11": (  # its bytes are resized by another rounding; its fake tensors ask for a driver
        "dali_pipes/decode/test_decode.py::test_resample_equals_torchvision",
        "dali_pipes/stages/test_ahead.py",
        "gpu_aug/test_recipe.py::test_a_padded_crop_is_resampled_with_its_border_on_whole_pixels",
        "gpu_aug/test_recipe.py::test_windows_are_torchvisions_operations_in_order",
    ),
    "triton>=3.6": (  # its compiler is called by other arguments
        "gpu_aug/engines/fused/test_triton.py::test_compiled_kernels_use_few_registers_and_wide_stores",
    ),
    "torchvision>=0.26": (  # older ones lack classes
        "gpu_aug/convert/test_convert.py::test_a_transform_of_torchvision_is_imported_or_refused_by_name",
        "gpu_aug/convert/test_convert.py::test_the_table_has_every_class_of_torchvision",
        "gpu_aug/convert/test_import_table.py::test_the_page_is_what_the_importers_do",
        "gpu_aug/targets/test_targets_libraries.py::test_torchvision_moves_keypoints_the_same_way",
    ),
    "kornia>=0.9": (  # it refuses images that are not contiguous
        "gpu_aug/convert/test_export.py::test_kornia_makes_the_same_pixels[GaussianBlur",
    ),
    # Engine "albumentations" refuses warps, and Albumentations warps on a grid. BMPs are written without a mark of alpha, and of two
    # EXIF segments only the first is read: we read orientations ourselves.
    "opencv-python-headless>=5": (
        "dali_pipes/decode/test_decode.py::test_transparent_pixels_have_their_stored_colour[bmp]",
        "dali_pipes/jpeg/test_damage.py::test_the_first_orientation_there_is_counts[",
        "gpu_aug/convert/test_corner_cases.py::test_bicubic_values_stay_in_8_bits[bicubic1",
        "gpu_aug/engines/fused/test_frames.py::test_a_chain_shows_what_opencv_shows_of_it_one_by_one[three warps]",
        "gpu_aug/engines/test_engines.py::test_an_output_is_the_rounded_float32",
        "gpu_aug/engines/test_engines.py::test_an_output_with_gaps_is_written[albumentations]",
        "gpu_aug/engines/test_engines.py::test_the_callers_autocast_and_gradients_do_not_matter[albumentations]",
        "gpu_aug/engines/test_engines.py::test_the_input_is_not_written_to[albumentations]",
        "gpu_aug/engines/test_engines.py::test_threads_share_an_engine[albumentations]",
    ),
    "opencv-python-headless>=4.11": (  # neither JPEG nor WebP is read as stored
        "dali_pipes/decode/test_stored.py::test_numbers_are_those_that_were_written[webp RGBA]",
        "dali_pipes/decode/test_stored.py::test_orientation_is_applied[JPEG",
        "dali_pipes/decode/test_stored.py::test_what_is_of_another_kind_or_damaged_is_refused[colours for gray]",
    ),
    "av>=18.1": (  # it turns no video and marks no cover picture, and cannot compare a setup that is repeated
        "dali_pipes/video/test_decode.py::test_frames_are_those_of_a_decode_from_the_beginning[rotated]",
        "readers/video/test_index.py::test_peculiar_videos_are_told",
        "readers/video/test_oddities.py::test_header_that_is_repeated",
        "readers/video/test_scan.py::test_best_stream_is_taken",
        "readers/video/test_scan.py::test_cover_is_no_video",
        "readers/video/test_scan.py::test_rotation_is_that_of_ffmpeg",
    ),
    "numpy>=2.1": (  # Albumentations then gives float64
        "gpu_aug/convert/test_output.py::test_albumentations[by its",
    ),
    "pillow>=12": (  # it warns of an argument that torchvision gives
        "gpu_aug/convert/test_convert.py::test_the_warning_of_foreign_steps_names_the_line_of_the_caller",
        "gpu_aug/convert/test_output.py::test_torchvision[ToPILImage]",
    ),
}
_SHOWN = (
    *(
        "Python",
        "torch",
        "triton",
        "numpy",
        "numba",
        "albumentations",
        "kornia",
        "opencv-python-headless",
        "av",
    ),
    *("nvidia-dali-cuda120", "nvidia-dali-cuda130"),
)
_TELL = """
import json, platform
from importlib import metadata
installed = {one.metadata["Name"]: one.version for one in metadata.distributions()}
print(json.dumps({"Python": platform.python_version(), **installed}))
"""


def requirements(which: str) -> list[str]:
    """What pip is asked for: the oldest series of each package, such as ``torch==2.11.*``, or no bound but ours."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    if which == "oldest":
        return [*(re.sub(r">=([\d.]+)[^;]*", r"==\1.*", line) for line in asked), *TOOLS]
    return [*asked, *TOOLS, *(f"{name}=={version}" for name, version in PINS[which].items())]


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


def left_out(installed: dict[str, str]) -> list[str]:
    """Return the options of pytest that leave out what these versions cannot pass."""
    return [
        f"--deselect=tests/{test}"
        for needed, tests in LEFT_OUT.items()
        for test in tests
        if (name := needed.partition(">=")[0]) in installed
        and _number(installed[name]) < _number(needed.partition(">=")[2])
    ]


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def run_tests(python: str, words: list[str]) -> int:
    """Run pytest with an interpreter, and print the row for the table."""
    tests = words or [f"tests/{path}" for path in TESTS]
    told = subprocess.run([python, "-c", _TELL], capture_output=True, text=True, check=True)
    installed = json.loads(told.stdout)
    command = [python, "-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider", *tests]
    command += left_out(installed)
    lines: list[str] = []
    environment = {**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as running:
        for line in running.stdout or ():
            sys.stdout.write(line)
            lines.append(line.strip())
    shown = [f"{name} {installed[name]}" for name in _SHOWN if name in installed]
    outcome = next((line for line in reversed(lines) if line), "nothing ran").strip("= ")
    date = datetime.date.today()
    sys.stdout.write(f"| {', '.join(shown)} | {date}: {outcome} |\n")
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
