"""The folder for files that readers keep between runs."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return ``$GPU_AUG_CACHE``, or ``~/.cache/gpu-aug`` when not set; it may not exist yet.

    `gpu_aug.compiled.cache` knows the same folder.
    """
    given = os.environ.get("GPU_AUG_CACHE") or "~/.cache/gpu-aug"
    return Path(given).expanduser().absolute()
