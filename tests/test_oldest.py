"""The oldest versions that pyproject.toml allows pass the tests of what uses them."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.versions import left_out

ROOT = Path(__file__).resolve().parents[1]
CONVERTED = ["convert", "engines/test_engines.py", "targets/test_targets_libraries.py"]
OLDEST = {
    "albumentations": [f"gpu_aug/{path}" for path in CONVERTED],
    "kornia": [f"gpu_aug/{path}" for path in CONVERTED],
    "pyarrow": ["readers/formats/test_parquet.py", "readers/formats/test_arrow.py"],
    "h5py": ["readers/formats/test_hdf5.py"],
    "array-record": ["readers/formats/test_arrayrecord.py"],
    "obstore": ["readers/storage/test_remote.py", "readers/storage/test_remote_faults.py"],
    "pylance": ["readers/formats/test_lance.py"],
    "deltalake": ["readers/formats/test_delta.py"],
    "pyiceberg": ["readers/formats/test_iceberg.py"],
    "huggingface-hub": ["readers/formats/test_hub.py"],
    "zstandard": ["readers/formats/test_stream.py", "readers/formats/test_mds.py"],
    "av": ["readers/video/test_scan.py", "dali_pipes/video/test_decode.py"],
    "torchdata": ["dali_pipes/integrations/test_torchdata.py"],
    "lightning": ["dali_pipes/integrations/test_lightning.py"],
    "pillow": ["readers/image", "dali_pipes/decode"],
    "opencv-python-headless": [
        *(f"dali_pipes/decode/test_{name}.py" for name in ("decode", "stored", "dali_images")),
        "gpu_aug/engines/test_engines.py",
    ],
    "tifffile": ["dali_pipes/decode/test_stored.py"],
    "imagecodecs": ["dali_pipes/decode/test_stored.py", "dali_pipes/decode/test_boxed.py"],
    "pillow-heif": ["dali_pipes/decode/test_boxed.py", "readers/image/test_box_headers.py"],
}
"""Distribution -> the tests that are run with its oldest version."""
# The installed version of datasets writes the files of these tests, and cannot do so with the oldest of these.
LEFT_OUT = {
    "pyarrow": "not saved_to_disk and not cache_of_hugging_face and not outside_of_the_folder",
    "huggingface-hub": "not test_splits",
}


def oldest(name: str) -> str:
    """What pip is asked for, such as ``h5py==3.13``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    needed = [*project["dependencies"], *(line for extra in extras for line in extra)]
    (line,) = {line for line in needed if line.startswith(f"{name}>=")}
    return f"{name}=={line.partition('>=')[2].partition(',')[0]}"


@pytest.mark.long
@pytest.mark.parametrize("name", OLDEST)
def test_the_oldest_version_passes(name: str, tmp_path: Path) -> None:
    """The tests of what uses it, with that version in front of the installed one."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path)]
    installed = subprocess.run([*pip, oldest(name)], capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"pip does not find {oldest(name)}")
    version = oldest(name).partition("==")[2]
    chosen = [*(str(ROOT / "tests" / path) for path in OLDEST[name]), "-k", LEFT_OUT.get(name, "")]
    chosen += left_out({name: version})
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *chosen],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "GPU_AUG_TESTS": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:]
