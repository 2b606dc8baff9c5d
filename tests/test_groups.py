"""The promises of tests/groups.toml, and the check that a whole run showed each."""

import ast
from pathlib import Path

import pytest

from tests.support.groups import Group, Rules, name_of, subject_of

TESTS = Path(__file__).parent
RULES = Rules(
    {"order": Group(("readers/order*",), {"every index once": "readers/order::every_index*"})},
    ("no CUDA device",),
)


def test_every_file_belongs_to_one_group() -> None:
    groups = Rules.read().groups
    files = [str(path.relative_to(TESTS)) for path in TESTS.rglob("test_*.py")]

    owners = {file: [name for name in groups if groups[name].holds(file)] for file in files}

    assert {file: names for file, names in owners.items() if len(names) != 1} == {}


def always_runs(path: Path) -> set[str]:
    """Names of the tests of a file that `make test` runs, too."""

    def is_long(marks: list[ast.expr]) -> bool:
        return any("pytest.mark.long" in ast.unparse(mark) for mark in marks)

    module = ast.parse(path.read_bytes())
    assigned = [node for node in module.body if isinstance(node, ast.Assign)]
    if is_long([node.value for node in assigned if ast.unparse(node.targets[0]) == "pytestmark"]):
        return set()
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    plain = [[m for m in node.decorator_list if not isinstance(m, ast.Call)] for node in functions]
    return {
        node.name.removeprefix("test_")
        for node, marks in zip(functions, plain, strict=True)
        if not is_long(marks)  # parametrize( ... marks=pytest.mark.long) leaves other cases
    }


def test_every_promise_names_a_test_of_its_group_that_always_runs() -> None:
    rules = Rules.read()
    names = {
        f"{subject_of(str(path.relative_to(TESTS)))}::{name}"
        for path in TESTS.rglob("test_*.py")
        for name in always_runs(path)
    }

    assert rules.unshown(names) == []
    for group in rules.groups.values():
        files = [pattern.partition("::")[0] for pattern in group.promises.values()]
        assert all(map(group.holds, files))


@pytest.mark.parametrize(
    ("passed", "reasons", "said"),
    [
        (["tests/readers/test_order.py::test_every_index_once[3]"], ["no CUDA device"], []),
        (
            ["tests/readers/test_order.py::test_golden", "tests/test_every_index_once.py::test_a"],
            [],
            ["no test passed for order: every index once (readers/order::every_index*)"],
        ),
        (
            ["tests/readers/test_order.py::TestOrder::test_every_index_once"],
            ["no FFmpeg"] * 2,
            ["2 skipped for a reason that groups.toml does not allow: no FFmpeg"],
        ),
    ],
)
def test_what_did_not_run_is_said(passed: list[str], reasons: list[str], said: list[str]) -> None:
    assert RULES.broken(passed, reasons) == said
    assert name_of("tests/a/test_b.py::Class::test_c[d::e]") == "a/b::c"
