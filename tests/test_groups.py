"""The count of tests that ran, by the promise they check."""

from pathlib import Path

import pytest

from tests.support.groups import Group, Rules

RULES = Rules({"order": Group(("readers/order*", "state"), 3)}, ("no CUDA device",))


def test_every_file_belongs_to_one_group() -> None:
    """No test file is counted nowhere or twice."""
    groups = Rules.read().groups
    tests = Path(__file__).parent
    files = [str(path.relative_to(tests)) for path in tests.rglob("test_*.py")]

    owners = {file: [name for name in groups if groups[name].holds(file)] for file in files}

    assert {file: names for file, names in owners.items() if len(names) != 1} == {}


@pytest.mark.parametrize(
    ("passed", "reasons", "said"),
    [
        (
            ["readers/test_order.py", "readers/test_order_block.py", "test_state.py"],
            ["no CUDA device"],
            [],
        ),
        (
            ["readers/test_order.py"] * 2 + ["readers/test_tar.py"],
            [],
            ["order: 2 tests passed, at least 3 must"],
        ),
        (
            ["readers/test_order.py"] * 3,
            ["no FFmpeg"] * 2,
            ["2 skipped for a reason that groups.toml does not allow: no FFmpeg"],
        ),
    ],
)
def test_what_did_not_run_is_said(passed: list[str], reasons: list[str], said: list[str]) -> None:
    """Too few tests of a group, and reasons that are not on the list."""
    assert RULES.broken(passed, reasons) == said
