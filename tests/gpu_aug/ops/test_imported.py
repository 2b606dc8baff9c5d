"""The folder gpu_aug/ops/imported holds operations that a converter makes, and nothing else of the product."""

import ast
from pathlib import Path

from gpu_aug import Operation

ROOT = Path(__file__).resolve().parents[3]
IMPORTED = sorted(
    name
    for name, kind in Operation._classes.items()
    if kind.__module__.startswith("gpu_aug.ops.imported.")
)


def names(folder: str, *, called: bool) -> set[str]:
    """Return the names that the modules of a folder mention, or call."""
    nodes = [
        node
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
    ]
    if called:
        nodes = [node.func for node in nodes if isinstance(node, ast.Call)]
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def test_a_converter_makes_every_imported_operation() -> None:
    """An operation without a converter belongs to its family."""
    assert IMPORTED
    assert sorted(set(IMPORTED) - names("gpu_aug/convert", called=False)) == []


def test_nothing_else_makes_an_imported_operation() -> None:
    """An operation that a preset, a policy or a benchmark uses belongs to its family."""
    folders = {path.parent.name for path in (ROOT / "gpu_aug").glob("*/__init__.py")} - {"convert"}
    parts = [*(f"gpu_aug/{name}" for name in sorted(folders)), "dali_pipes", "bench", "examples"]
    made = set().union(*(names(part, called=True) for part in parts))

    assert sorted(made.intersection(IMPORTED)) == []
