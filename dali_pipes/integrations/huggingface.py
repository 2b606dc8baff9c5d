"""Use loaders in the Trainer of transformers: batches as dictionaries, and states in its checkpoints.

accelerate does not need this module: ``accelerator.prepare(loader)`` returns the loader unchanged, because it takes its
ranks from torch.distributed, and ``accelerator.register_for_checkpointing(loader)`` stores its state.
"""

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.loader import Loader
from dali_pipes.state import consumed_in

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise MissingPackageError(
        "dali_pipes.integrations.huggingface needs transformers, which is not installed: pip install 'transformers[torch]'"
    ) from error

_FILE = "gpu_aug_loader.json"


class Dictionaries:
    """Yields the batches of a loader as dictionaries, as transformers models expect them.

    Args:
        loader: The loader.
        names: For each argument of the model, the name of the batch's entry; see `Batch.to_dict`.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> batches = Dictionaries(loader, pixel_values="images", labels="labels")
        >>> next(iter(batches))["pixel_values"].shape
        torch.Size([8, 3, 64, 64])
    """

    def __init__(self, loader: Loader, **names: str) -> None:
        self.loader, self._names = loader, names

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.loader:
            there = batch.to_dict()
            yield {argument: there[name] for argument, name in self._names.items()}

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next loop; Trainer calls this. After a state was loaded, the loader counts epochs itself.

        Trainer divides the steps of a checkpoint by the steps of an epoch, which is wrong for another number of ranks.
        """
        epochs = self.loader.batch_sampler.sampler
        if epoch and not (epochs.began or epochs.loaded):
            warnings.warn(
                f"Trainer continues in epoch {epoch}, and the loader has no state, so this epoch begins anew: give "
                f"Trainer(callbacks=[LoaderCallback(loader)]) in both runs",
                stacklevel=2,
            )
        epochs.set_epoch(epoch)


class LoaderCallback(TrainerCallback):  # type: ignore[misc]  # a class of any type where transformers is not checked
    """Stores a loader's state in the checkpoints of a Trainer, and resumes from it.

    Override the Trainer's ``get_train_dataloader`` to return `Dictionaries`, and set
    ``TrainingArguments(ignore_data_skip=True)``, so that Trainer does not skip batches again.

    Args:
        loader: The training loader.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> # Trainer(..., args=TrainingArguments(..., ignore_data_skip=True), callbacks=[LoaderCallback(loader)])
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write the loader's state into the checkpoint."""
        del control
        loader_state = self.loader.state_dict()
        if state.is_world_process_zero:
            (_folder(args, state) / _FILE).write_text(json.dumps(loader_state))

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Load the state from the checkpoint from which the training resumes.

        Raises:
            LoaderError: The checkpoint has no state, or Trainer would skip the batches that the state skips already.
            StateMismatchError: The state belongs to another dataset, recipe, seed or version.
        """
        del control
        if not state.global_step:
            return
        path = _folder(args, state) / _FILE
        if not args.ignore_data_skip:
            raise LoaderError(
                "the loader resumes by itself, and Trainer would skip the same batches again: give "
                "TrainingArguments(ignore_data_skip=True)"
            )
        if not path.is_file():
            raise LoaderError(
                f"{path} is missing, so the loader cannot go on: resume from a checkpoint in output_dir that was saved "
                f"with this callback"
            )
        saved = json.loads(path.read_text())
        self.loader.load_state_dict(saved)
        if args.max_steps <= 0:
            self._warn_of_other_steps(args, state, saved)

    def _warn_of_other_steps(self, args: Any, state: Any, saved: Mapping[str, Any]) -> None:
        """Warn if Trainer, which counts steps, would not stop at the end of an epoch."""
        every = args.gradient_accumulation_steps
        per_epoch = -(-len(self.loader) // every)
        taken = len(self.loader) - self.loader.steps.num_steps(consumed_in(saved))
        done = saved["epoch"] * per_epoch - (-taken // every)
        if done != state.global_step:
            warnings.warn(
                f"Trainer stands at step {state.global_step}, and the loader where step {done} of this batch size and "
                f"number of processes is, so Trainer will not end with epoch {args.num_train_epochs:g}: give "
                f"TrainingArguments(max_steps={state.global_step + state.max_steps - done})",
                stacklevel=2,
            )


def _folder(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"
