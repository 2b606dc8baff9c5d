"""Which package may import which, that no modules import each other in a circle, what an import costs, and what happens when a part is missing."""

import ast
import json
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import dali_pipes
import gpu_aug
from bench.cli import main

ROOT = Path(__file__).resolve().parents[1]
ARROWS = {
    "readers": set(),
    "gpu_aug": set(),
    "dali_pipes": {"readers", "gpu_aug"},
    "bench": {"readers", "gpu_aug", "dali_pipes"},
}
MISSING = ["nvidia", "nvidia.dali", "albumentations", "kornia", "cv2"]
LATE = {
    "gpu_aug.ops.operation",
    "gpu_aug.recipe",
    "gpu_aug.schedule",
    "gpu_aug.targets.targets",
    "gpu_aug.views",
}
"""Modules whose classes have constructors and conversions, such as Recipe.load, that live in modules which need the classes:
their functions import those when they are called."""
HEAVY = {"albumentations", "cv2", "kornia", "nvidia.dali", "PIL", "torchvision", "webdataset"}


@cache
def imports(source: str, *, late: bool = True) -> list[tuple[str, str]]:
    """Every import of a module: (module, name or ""). With ``late`` those inside functions and for type checkers, too."""
    found: list[tuple[str, str]] = []
    tree = ast.parse(source)
    for node in ast.walk(tree) if late else tree.body:
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            assert node.level == 0, "relative imports are not looked at"
            found += [(node.module, alias.name) for alias in node.names]
    return found


def wrong_arrows(package: str, source: str) -> set[str]:
    """The packages of ours that a module of a package imports and must not."""
    imported = {module.partition(".")[0] for module, _ in imports(source)}
    return imported & (ARROWS.keys() - ARROWS[package] - {package})


def walk(root: Path, package: str) -> dict[str, set[str]]:
    """The wrong arrows of every file of a package."""
    return {
        str(module.relative_to(root)): wrong_arrows(package, module.read_text())
        for module in sorted((root / package).rglob("*.py"))
    }


def find_circle(root: Path, package: str) -> list[str]:
    """Modules of a package that import each other in a circle, the first one again at the end; or none."""
    files = {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file
        for file in (root / package).rglob("*.py")
    }
    graph = {
        name: {
            target
            for module, attribute in imports(file.read_text(), late=name not in LATE)
            if (target := f"{module}.{attribute}" if f"{module}.{attribute}" in files else module)
            in files
        }
        - {name}
        for name, file in files.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def run(code: str) -> Any:
    """Run code in a fresh interpreter and return what it prints as JSON."""
    command = [sys.executable, "-c", f"import json, sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd="/")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("package", ARROWS)
def test_arrows(package: str) -> None:
    """No module imports a package that its own must not know."""
    found = walk(ROOT, package)

    assert len(list((ROOT / package).rglob("*.py"))) == len(found)
    assert {module: wrong for module, wrong in found.items() if wrong} == {}


def test_the_walk_sees_every_file(tmp_path: Path) -> None:
    """A wrong arrow is seen in any of several files of one name."""
    for folder in ("gpu_aug", "gpu_aug/ops", "gpu_aug/engines"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "gpu_aug" / "ops" / "__init__.py").write_text("import bench")

    found = walk(tmp_path, "gpu_aug")

    assert len(found) == 3
    assert found["gpu_aug/ops/__init__.py"] == {"bench"}


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("readers", "import gpu_aug.ops"),
        ("gpu_aug", "def f():\n    from readers import Sample"),
        ("dali_pipes", "from bench.cli import app"),
    ],
)
def test_a_wrong_arrow_is_noticed(package: str, source: str) -> None:
    """The check above can fail, for imports inside functions as well."""
    assert wrong_arrows(package, source)


@pytest.mark.parametrize("package", ARROWS)
def test_no_circles(package: str) -> None:
    """No modules import each other in a circle, not even inside functions or for type checkers."""
    assert find_circle(ROOT, package) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from readers.second import b", "import readers.first"),
        ("from readers import second", "def b():\n    from readers.first import a"),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import readers.second",
            "from readers.inner.third import c",
        ),
    ],
)
def test_a_circle_is_noticed(first: str, second: str, tmp_path: Path) -> None:
    """At the top of a module, in a function, for type checkers, and through a third one."""
    (tmp_path / "readers" / "inner").mkdir(parents=True)
    (tmp_path / "readers" / "first.py").write_text(first)
    (tmp_path / "readers" / "inner" / "third.py").write_text("from readers import first")
    assert find_circle(tmp_path, "readers") == []

    (tmp_path / "readers" / "second.py").write_text(second)

    assert {"readers.first", "readers.second"} <= set(find_circle(tmp_path, "readers"))


IMPORTS = {  # one after the other, with what each may not bring in
    "import readers": {"torch", "numba", *HEAVY},
    "import dali_pipes": {"torch", "numba", *HEAVY},
    "import gpu_aug": {*HEAVY, "gpu_aug.convert"},
    "from dali_pipes import *": {*HEAVY, "gpu_aug.convert"},
}


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """The modules that are there after each of the imports."""
    return run(  # type: ignore[no-any-return]
        "loaded = {}\n"
        f"for line in {list(IMPORTS)}:\n"
        "    exec(line)\n"
        "    loaded[line] = list(sys.modules)\n"
        "print(json.dumps(loaded))"
    )


@pytest.mark.parametrize("line", IMPORTS)
def test_an_import_brings_in_nothing_heavy(line: str, loaded: dict[str, list[str]]) -> None:
    """Torch, Numba, DALI, the decoders and the converters wait until they are used."""
    assert line.split()[1] in loaded[line]
    assert IMPORTS[line].intersection(loaded[line]) == set()


USES = {
    "a dataset": ("", "64 x 64"),
    "decoder dali": ("decoder='dali'", "pip install 'gpu-aug[cuda12]'"),
    "engine albumentations": ("decoder='cpu', engine='albumentations'", "pip install 'gpu-aug'"),
    "engine kornia": ("decoder='cpu', engine='kornia'", "pip install 'gpu-aug'"),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each use comes to where DALI, Albumentations, Kornia and OpenCV are missing."""
    photo = tmp_path_factory.mktemp("photos") / "photo.jpg"
    Image.new("RGB", (64, 64)).save(photo)
    return run(  # type: ignore[no-any-return]
        f"sys.modules.update(dict.fromkeys({MISSING}))\n"
        "from dali_pipes import Loader; from gpu_aug import Recipe; from readers import open_dataset, read_header\n"
        f"photos, outcomes = open_dataset([{str(photo)!r}]), {{}}\n"
        f"for name, (options, _) in {USES}.items():\n"
        "    try:\n"
        "        if options:\n"
        "            options = eval(f'dict({options})')\n"
        "            Loader(photos, Recipe.imagenet_train(), batch_size=1, device='cpu', **options)\n"
        "        header = read_header(photos[0].fields['jpg'])\n"
        "        outcomes[name] = f'{header.height} x {header.width}'\n"
        "    except (ImportError, ValueError) as error:\n"
        "        outcomes[name] = str(error)\n"
        "print(json.dumps(outcomes))"
    )


@pytest.mark.parametrize("use", USES)
def test_a_missing_part_is_named_when_it_is_used(use: str, outcomes: dict[str, str]) -> None:
    """Importing works without it; asking for it says in one sentence how to install it."""
    assert USES[use][1] in outcomes[use]
    assert "\n" not in outcomes[use]


@pytest.mark.parametrize("package", ["readers", "gpu_aug"])
def test_a_foreign_package_of_our_name_is_named(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command says in one sentence which module hides one of ours, and where it is."""
    (tmp_path / f"{package}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for name in (package, "dali_pipes.foreign_packages"):
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    sentence = f"gpu-aug: gpu-aug needs its own package '{package}', but Python finds {tmp_path}"
    assert str(ended.value).startswith(sentence)


@pytest.mark.parametrize("package", ["readers", "gpu_aug", "dali_pipes"])
def test_all_is_true(package: str) -> None:
    """Every name in __all__ is there, and nothing is listed twice."""
    module = import_module(package)

    assert all(hasattr(module, name) for name in module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)


def test_type_checkers_see_what_is_imported() -> None:
    """The names of dali_pipes come from the same modules for type checkers and when it runs."""
    tree = ast.parse(Path(dali_pipes.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert seen == dali_pipes._MODULES


def test_every_operation_is_a_name_of_gpu_aug() -> None:
    """An operation is listed in the __all__ of its file, and so is there for users."""
    from gpu_aug.ops.operation import Operation

    ours = {
        name: kind
        for name, kind in Operation._classes.items()
        if kind.__module__.startswith("gpu_aug.ops") and not name.startswith("_")
    }

    assert ours
    assert {name: getattr(gpu_aug, name, None) for name in ours} == ours
