"""Which package may import which, that no modules import each other in a circle, what an import costs, and what happens when a part is missing."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gpu_aug

ROOT = Path(__file__).resolve().parents[1]
ARROWS = {
    "readers": set(),
    "gpu_aug": set(),
    "dali_pipes": {"readers", "gpu_aug"},
    "bench": {"readers", "gpu_aug", "dali_pipes"},
}
OPTIONAL = ["nvidia", "nvidia.dali", "albumentations", "kornia", "cv2"]


def imports(source: str) -> Iterator[tuple[str, str]]:
    """Every import of a module, those inside functions and for type checkers too: (module, name or "")."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            assert node.level == 0, "relative imports are not looked at"
            yield from ((node.module, alias.name) for alias in node.names)


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
            for module, attribute in imports(file.read_text())
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


def run(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter with folders put in front of the import path."""
    folders = [str(folder) for folder in (*path, ROOT)]
    code = f"import sys; sys.path[:0] = {folders}\n{code}"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd="/")


@pytest.mark.parametrize("package", ARROWS)
def test_arrows(package: str) -> None:
    """No module imports a package that its own must not know."""
    assert len(list((ROOT / package).rglob("*.py"))) == len(walk(ROOT, package))
    assert set().union(*walk(ROOT, package).values()) == set(), walk(ROOT, package)


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


@pytest.mark.parametrize("package", ["readers", "dali_pipes"])
def test_import_without_the_optional_parts(package: str) -> None:
    """Importing works where DALI, Albumentations, Kornia and OpenCV are missing."""
    blocked = f"sys.modules.update(dict.fromkeys({OPTIONAL}))"
    result = run(f"{blocked}\nimport {package}\nprint('imported')")

    assert result.stdout == "imported\n", result.stderr


def test_a_missing_part_would_be_noticed() -> None:
    """Blocking a module as above really keeps it from being imported."""
    result = run(f"sys.modules.update(dict.fromkeys({OPTIONAL}))\nimport cv2")

    assert "ModuleNotFoundError" in result.stderr


def test_readers_needs_no_torch() -> None:
    """The readers serve people who train without torch."""
    assert run("import readers; print('torch' in sys.modules)").stdout == "False\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("decoder='dali'", "pip install 'gpu-aug[cuda12]'"),
        pytest.param(
            "decoder='cpu', engine='albumentations'",
            "pip install 'gpu-aug'",
            marks=pytest.mark.long,
        ),
        ("decoder='cpu', engine='kornia'", "pip install 'gpu-aug'"),
    ],
)
def test_using_a_missing_part_says_how_to_install_it(
    options: str, sentence: str, photos: list[Path]
) -> None:
    """One sentence with the install line, when a part is asked for that is not there."""
    result = run(
        f"sys.modules.update(dict.fromkeys({OPTIONAL}))\n"
        "from dali_pipes import Loader; from gpu_aug import Recipe; from readers import open_dataset\n"
        f"photos = open_dataset([{str(photos[0])!r}])\n"
        "try:\n"
        f"    Loader(photos, Recipe.imagenet_train(), batch_size=1, device='cpu', {options})\n"
        "except (ImportError, ValueError) as error:\n"
        "    print(error)\n"
    )
    assert sentence in result.stdout
    assert result.stdout.count("\n") == 1


@pytest.mark.parametrize("package", ["readers", "dali_pipes"])
def test_import_brings_in_nothing_heavy(package: str) -> None:
    """What takes long to import waits until it is used."""
    heavy = ["albumentations", "cv2", "kornia", "nvidia.dali", "PIL", "torchvision", "webdataset"]
    code = f"import {package}, sys; print([name for name in {heavy} if name in sys.modules])"

    assert run(code).stdout == "[]\n"


@pytest.mark.parametrize("package", ["readers", "gpu_aug"])
def test_a_foreign_package_of_our_name_is_named(package: str, tmp_path: Path) -> None:
    """A module that hides one of ours is named in one sentence, with its place."""
    (tmp_path / f"{package}.py").write_text("")
    result = run("import dali_pipes", tmp_path)

    last = result.stderr.strip().splitlines()[-1]
    assert f"needs its own package '{package}', but Python finds {tmp_path}" in last


def test_the_command_notices_a_foreign_bench(tmp_path: Path) -> None:
    """The command line does not start somebody else's `bench`."""
    (tmp_path / "bench.py").write_text("")
    result = run("from dali_pipes.command import main; main()", tmp_path)

    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert f"'bench', but Python finds {tmp_path}" in result.stderr


@pytest.mark.parametrize("package", ["readers", "dali_pipes"])
def test_all_is_true(package: str) -> None:
    """Every name in __all__ is there, and nothing is listed twice."""
    module = __import__(package)

    assert all(hasattr(module, name) for name in module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)


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
