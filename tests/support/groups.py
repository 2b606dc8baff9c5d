"""Which promise of the product a test file checks, and how many of each group's tests must have run."""

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
    """Test files that check one promise.

    Attributes:
        files: Patterns of their paths below tests/, without ``test_`` and ``.py``.
        at_least: How many of their tests pass on a machine with nothing but what `make` installs: no
            GPU, no FFmpeg, no data beside the checkout.
    """

    files: tuple[str, ...]
    at_least: int

    def holds(self, name: str) -> bool:
        """Whether a file, such as ``readers/formats/test_tar.py``, belongs here."""
        path = PurePosixPath(name)
        subject = str(path.with_name(path.stem.removeprefix("test_")))
        return any(fnmatch(subject, pattern) for pattern in self.files)


@dataclass(frozen=True)
class Rules:
    """What groups.toml says.

    Attributes:
        groups: By name.
        may_skip: Regular expressions of the reasons for which a test may be skipped.
    """

    groups: dict[str, Group]
    may_skip: tuple[str, ...]

    @classmethod
    def read(cls, path: Path = FILE) -> "Rules":
        """Read the file."""
        found = tomllib.loads(path.read_text())
        groups = {
            name: Group(tuple(group["files"]), group["at_least"])
            for name, group in found["groups"].items()
        }
        return cls(groups, tuple(found["may_skip"]))

    def count(self, names: Iterable[str]) -> dict[str, int]:
        """How many of the files' names belong to each group."""
        files = Counter(names)
        return {
            name: sum(number for file, number in files.items() if group.holds(file))
            for name, group in self.groups.items()
        }

    def broken(self, passed: Iterable[str], reasons: Iterable[str]) -> list[str]:
        """What a whole run does not keep.

        Args:
            passed: The file of each test that passed.
            reasons: Why each of the others was skipped.

        Returns:
            A sentence each; none where all is well.
        """
        few = [
            f"{name}: {number} tests passed, at least {self.groups[name].at_least} must"
            for name, number in self.count(passed).items()
            if number < self.groups[name].at_least
        ]
        strange = Counter(
            reason
            for reason in reasons
            if not any(re.search(pattern, reason) for pattern in self.may_skip)
        )
        return few + [
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
