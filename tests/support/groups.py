"""Which promises of the product the tests check, and what a whole run must have shown."""

import os
import platform
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path, PurePosixPath

FILE = Path(__file__).resolve().parents[1] / "groups.toml"
_TOLD = ("torch", "torchvision", "kornia", "albumentations", "numpy", "numba")


@dataclass(frozen=True)
class Group:
    """Test files that check related promises.

    Attributes:
        files: Patterns of their subjects (see `subject_of`).
        promises: By promise a pattern of the tests that show it: subject of the file, "::", name without ``test_``.
    """

    files: tuple[str, ...]
    promises: Mapping[str, str]

    def holds(self, file: str) -> bool:
        """Whether a file, such as ``readers/formats/test_tar.py``, belongs here."""
        return any(fnmatch(subject_of(file), pattern) for pattern in self.files)


def subject_of(file: str) -> str:
    """Return the path of a test file below tests/ without ``test_`` and ``.py``."""
    path = PurePosixPath(file.removeprefix("tests/"))
    return str(path.with_name(path.stem.removeprefix("test_")))


def name_of(nodeid: str) -> str:
    """Return the subject of a test's file, "::", and its name without ``test_``, class and parameters."""
    file, _, rest = nodeid.partition("::")
    name = rest.partition("[")[0].rpartition("::")[2]
    return f"{subject_of(file)}::{name.removeprefix('test_')}"


@dataclass(frozen=True)
class Rules:
    """What groups.toml says.

    Attributes:
        groups: By name.
        may_skip: Regular expressions of the reasons for which a test may be skipped.
    """

    groups: Mapping[str, Group]
    may_skip: tuple[str, ...]

    @classmethod
    def read(cls, path: Path = FILE) -> "Rules":
        """Read the file."""
        found = tomllib.loads(path.read_text())
        groups = {
            name: Group(tuple(group["files"]), group["promises"])
            for name, group in found["groups"].items()
        }
        return cls(groups, tuple(found["may_skip"]))

    def count(self, nodeids: Iterable[str]) -> dict[str, int]:
        """Return how many of the tests belong to each group."""
        files = Counter(nodeid.partition("::")[0] for nodeid in nodeids)
        return {
            name: sum(number for file, number in files.items() if group.holds(file))
            for name, group in self.groups.items()
        }

    def unshown(self, tests: Iterable[str]) -> list[str]:
        """Return the promises that none of the tests shows, each with its group and pattern.

        Args:
            tests: As `name_of` returns them.
        """
        present = set(tests)
        return [
            f"{name}: {promise} ({pattern})"
            for name, group in self.groups.items()
            for promise, pattern in group.promises.items()
            if not (pattern in present or any(fnmatch(test, pattern) for test in present))
        ]

    def broken(self, passed: Iterable[str], reasons: Iterable[str]) -> list[str]:
        """Return a sentence for each rule that a whole run breaks.

        Args:
            passed: The node id of each test that passed.
            reasons: Why each of the others was skipped.
        """
        unshown = [
            f"no test passed for {promise}" for promise in self.unshown(map(name_of, passed))
        ]
        strange = Counter(
            reason
            for reason in reasons
            if not any(re.search(pattern, reason) for pattern in self.may_skip)
        )
        return unshown + [
            f"{number} skipped for a reason that groups.toml does not allow: {reason}"
            for reason, number in sorted(strange.items())
        ]


def outcome(passed: Mapping[str, int], reasons: Sequence[str], num_failed: int) -> str:
    """A run as a page of Markdown: when, with what, how many tests passed of each group, and what was skipped."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in _TOLD)
    counts = [f"| {name} | {number} |" for name, number in passed.items()]
    skipped = [
        f"- {number} skipped: {reason.removeprefix('Skipped: ')}"
        for reason, number in sorted(Counter(reasons).items())
    ]
    return "\n".join(
        [
            "# What `make test-all` found",
            "",
            f"{date.today()}, {os.cpu_count()} cores, Python {platform.python_version()}, {versions}.",
            f"{sum(passed.values())} tests passed, {num_failed} failed, {len(reasons)} were skipped.",
            "",
            "| Tests of | passed |",
            "|---|---|",
            *counts,
            "",
            *skipped,
            "",
        ]
    )
