"""Raise if another package has the name of one of ours: `readers`, for example, is a common name."""

import importlib.util
from pathlib import Path

# The folder of all our packages. Ray unpacks each of its py_modules into a separate folder.
HOME = Path(__file__).resolve().parent.parent
if HOME.name.startswith("_ray_pkg_"):
    HOME = HOME.parent


def check(name: str) -> None:
    """Raise if Python would import a package of ours from another folder than that of this package.

    Raises:
        ImportError: Python would import the package from elsewhere.
    """
    spec = importlib.util.find_spec(name)
    paths = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or [])]
    found = next((Path(path) for path in paths if path), None)
    if found is not None and HOME not in found.resolve().parents:
        raise ImportError(
            f"gpu-aug needs its own package {name!r}, but Python finds {found} first; rename that one, "
            f"or take its folder off sys.path"
        )


check("gpu_aug")
check("readers")
