"""The names that a user imports, with their signatures, as they are written down in a file."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gpu_aug import Operation

GOLDEN = Path(__file__).with_name("data") / "public_names.txt"
PACKAGES = ("readers", "gpu_aug", "dali_pipes")
PLAIN = (bool, int, float, str, tuple, type(None))


def signature_of(function: Any) -> str:
    """Return names, kinds and plain defaults of the parameters, without types, which Python's versions print differently."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # it is no callable, or none of Python's
        return ""
    plain = [
        one.replace(
            annotation=one.empty,
            default=one.default
            if one.default is one.empty or isinstance(one.default, PLAIN)
            else Ellipsis,
        )
        for one in parameters
        if one.name != "self"
    ]
    return str(inspect.Signature(plain))


def lines_of(name: str, value: Any) -> Iterator[str]:
    """Yield a line for a name, and one for each public method or attribute that its class defines."""
    yield f"{name}{signature_of(value)}"
    if not inspect.isclass(value) or (issubclass(value, Operation) and value is not Operation):
        return
    for attribute in sorted({key for base in value.__mro__[:-1] for key in vars(base)}):
        member = inspect.getattr_static(value, attribute)
        if attribute.startswith("_") or not callable(getattr(value, attribute, None)):
            continue
        is_ours = getattr(member, "__module__", "").partition(".")[0] in PACKAGES
        if is_ours or isinstance(member, staticmethod | classmethod):
            yield f"{name}.{attribute}{signature_of(getattr(value, attribute))}"


def public_lines() -> list[str]:
    """Return the lines of all packages."""
    found = []
    for package in PACKAGES:
        module = import_module(package)
        for name in sorted(module.__all__):
            found += lines_of(f"{package}.{name}", getattr(module, name))
    return found


def test_public_names_and_signatures(request: pytest.FixtureRequest) -> None:
    """A changed line is a changed interface: list it in CHANGELOG.md, and write the file with --write-public-names."""
    if request.config.getoption("--write-public-names"):
        GOLDEN.write_text("\n".join(public_lines()) + "\n", encoding="utf-8")
    assert public_lines() == GOLDEN.read_text(encoding="utf-8").splitlines()
