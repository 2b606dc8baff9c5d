"""Examples in docstrings: everything public has one, and it does what it shows."""

import doctest
import importlib
import importlib.util
import inspect
import pkgutil
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import dali_pipes
import gpu_aug
import readers
from gpu_aug import Operation
from tests.support.example_data import make_example_data

INTEGRATIONS = {
    "dali_pipes.integrations.dali": (
        "DALIClassificationIterator",
        "DALIGenericIterator",
        "LastBatchPolicy",
    ),
    "dali_pipes.integrations.torchdata": ("LoaderDataset", "LoaderNode"),
    "dali_pipes.integrations.ray.workers": ("RayWorkers",),
    "dali_pipes.integrations.lightning": ("LoaderModule",),
    "dali_pipes.integrations.torch_dataset": ("from_torch",),
    "dali_pipes.integrations.hf_datasets": ("from_huggingface",),
    "dali_pipes.integrations.webdataset": ("from_webdataset",),
    "dali_pipes.integrations.dlpack": ("to_jax", "to_cupy"),
    "dali_pipes.integrations.ray.data_source": ("DatasetSource",),
    "dali_pipes.integrations.ray.executor": ("RayExecutor",),
    "dali_pipes.integrations.ray.shard_sink": ("ShardSink",),
    "dali_pipes.integrations.metrics": ("Logged", "OpenTelemetry", "Prometheus", "TensorBoard"),
}
COMMANDS = {
    "readers.prepare": (
        *("index", "inspect", "pack"),
        *("Plan", "plan_shards", "load_plan", "make_shard", "merge"),
        *("ArrayTask", "Executor", "Job", "LocalExecutor"),
    ),
    "dali_pipes.runs.audit_check": ("check_audit",),
    "dali_pipes.runs.audit_compare": ("compare_audits",),
    "dali_pipes.machine.doctor": ("examine",),
    "dali_pipes.preview": ("draw_words", "preview_engines", "preview_images"),
}
"""What the commands do, as functions."""
READERS = {
    "readers.formats.lerobot.dataset": ("LeRobotDataset",),
    "readers.storage.destination": ("open_destination",),
    "readers.storage.remote": ("StorageOptions", "configure"),
    "readers.formats.voc.dataset": ("VocDataset",),
    "readers.formats.yolo.dataset": ("YoloDataset",),
    "readers.formats.labelme.dataset": ("LabelMeDataset",),
    "readers.formats.dota.dataset": ("DotaDataset",),
}
"""Classes of formats that are opened by `open_dataset`, and what storage takes."""
MARKS = {
    "from_dali": pytest.mark.needs_dali,
    "to_cupy": pytest.mark.needs_cuda,
    "RayWorkers": pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="could not import 'ray'"
    ),
}
NEVER_MET = ("DecodeError",)
"""What a loader turns into something else before a user sees it."""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def is_operation(name: str) -> bool:
    """Whether a name of gpu_aug is that of an operation, which are documented by family."""
    value = getattr(gpu_aug, name)
    return inspect.isclass(value) and issubclass(value, Operation) and value is not Operation


def examples_of(value: Any) -> list[doctest.Example]:
    """The examples of a class or function, which stand in its own docstring."""
    return doctest.DocTestParser().get_examples(inspect.cleandoc(value.__doc__ or ""))


OPERATIONS = [name for name in gpu_aug.__all__ if is_operation(name)]
NAMES = [
    *(("readers", name) for name in readers.__all__),
    *(
        ("gpu_aug", name)
        for name in gpu_aug.__all__
        if not is_operation(name) and name != "PRESETS"
    ),
    *(("gpu_aug", name) for name in OPERATIONS if examples_of(getattr(gpu_aug, name))),
    *(("dali_pipes", name) for name in dali_pipes.__all__ if name not in NEVER_MET),
    *(
        (module, name)
        for module, names in (INTEGRATIONS | COMMANDS | READERS).items()
        for name in names
    ),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data that the examples open."""
    folder = tmp_path_factory.mktemp("data")
    make_example_data(folder)
    return folder


def namespace(module: ModuleType) -> dict[str, Any]:
    """What an example may use: all that is public here, NumPy and torch."""
    found: dict[str, Any] = {"__name__": "__main__", "np": np, "torch": torch}
    for package in (readers, gpu_aug, dali_pipes):
        found |= {name: getattr(package, name) for name in package.__all__}
    names = () if module.__name__ in COMMANDS else getattr(module, "__all__", ())
    names = names or (INTEGRATIONS | READERS).get(module.__name__, ())
    return found | {name: getattr(module, name) for name in names}


def run(name: str, value: Any, names: dict[str, Any]) -> str:
    """Run the examples of a docstring; return what was not as shown."""
    test = doctest.DocTest(examples_of(value), names, name, None, None, None)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=said.append)
    return "".join(said)


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:'set_vital'"
)
@pytest.mark.parametrize(
    ("module", "name"),
    [pytest.param(*names, marks=MARKS.get(names[1], ()), id=".".join(names)) for names in NAMES],
)
def test_examples(module: str, name: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has an example, which prints what it shows."""
    monkeypatch.chdir(data)
    try:
        found = importlib.import_module(module)
    except dali_pipes.MissingPackageError as error:
        pytest.skip(str(error))
    value = getattr(found, name)
    assert examples_of(value), f"{module}.{name} has no example"
    assert run(name, value, namespace(found)) == ""


def undocumented_methods(classes: list[type]) -> list[str]:
    """Return the public methods without a docstring of their own, of a base class or of a protocol."""
    promised = {
        name for one in classes if getattr(one, "_is_protocol", False) for name in vars(one)
    }
    return [
        f"{one.__module__}.{one.__qualname__}.{name}"
        for one in classes
        for name, value in vars(one).items()
        if name[0] != "_" and name not in promised
        if inspect.isfunction(value) or isinstance(value, property | cached_property)
        if not inspect.getdoc(value) and not inspect.getdoc(getattr(one, name))
    ]


def test_every_method_of_readers_is_documented() -> None:
    """Lint rule D102 is off there, because an override need not repeat the docstring of its base."""
    modules = [module.name for module in pkgutil.walk_packages(readers.__path__, "readers.")]
    classes = [
        value
        for module in map(importlib.import_module, modules)
        for value in vars(module).values()
        if inspect.isclass(value)
        and value.__module__ == module.__name__
        and value.__name__[0] != "_"
    ]
    assert undocumented_methods(classes) == []

    class Silent:
        def method(self) -> None: ...

    assert len(undocumented_methods([Silent])) == 1


def test_every_family_of_operations_has_an_example() -> None:
    """One in every module or folder of gpu_aug/ops that has operations which people write into recipes."""
    families: dict[str, bool] = {}
    for name in OPERATIONS:
        value = getattr(gpu_aug, name)
        family = value.__module__.split(".")[2]
        families[family] = families.get(family, False) or bool(examples_of(value))
    assert [family for family, shown in families.items() if not shown] == []


def test_a_wrong_example_is_noticed() -> None:
    """Negative control: an example that prints something else."""

    def two() -> int:
        """Return 2.

        Example:
            >>> two()
            3
        """
        return 2

    assert "Expected:" in run("two", two, {"two": two})
