"""Loaders in a Lightning Trainer: their states go into its checkpoints, their epochs follow its own."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from dali_pipes.batch import Batch
from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.loader import Loader

try:
    from lightning import LightningDataModule
except ImportError as error:
    raise MissingPackageError(
        "dali_pipes.integrations.lightning needs Lightning, which is not installed: pip install 'gpu-aug[lightning]'"
    ) from error

Maker = Callable[[], Loader]
"""Makes a loader, after torch.distributed has been started and knows rank and world size."""

SeveralMaker = Callable[[], Loader | Sequence[Loader]]
"""Makes a loader, or several, which Lightning goes through in turn and numbers by `dataloader_idx`."""


class LoaderModule(LightningDataModule):  # type: ignore[misc]  # a class of any type where Lightning is not checked
    """A DataModule of loaders that resumes exactly, in the middle of an epoch too.

    Each argument is called when the trainer asks for that loader, in every process::

        data = LoaderModule(
            train=lambda: Loader(photos, Recipe.imagenet_train(), batch_size=256),
            val=lambda: Loader.eval(others, Recipe.imagenet_eval(), batch_size=256),
        )
        trainer.fit(model, data, ckpt_path=...)

    The loaders take rank and world size from torch.distributed, and use the device that Lightning gave to the process.
    Training goes through the epochs in the trainer's order. Every validation, test and prediction, and training under
    `overfit_batches`, uses epoch 0, and therefore the same samples and draws each time. Lightning wraps no DataLoader,
    sampler or collation around a loader.

    The loops yield `Batch`, which `training_step` receives. Lightning cannot tell its size, so log with
    ``self.log(name, value, batch_size=len(batch))``. Strategies that start processes by pickling need functions with
    names, or functools.partial, instead of lambdas.

    Every checkpoint resumes exactly, also the last one of a training that `max_steps` ended within an epoch: Lightning
    counts that epoch as finished, and this module corrects the count.

    Args:
        train: Makes the loader of `trainer.fit`.
        val: Makes the loader of the validations, or a list of loaders; None means no validation.
        test: Makes the loader of `trainer.test`, or a list of loaders.
        predict: Makes the loader of `trainer.predict`, or a list of loaders.

    Example:
        >>> photos = open_dataset("photos/")
        >>> data = LoaderModule(
        ...     train=lambda: Loader(photos, Recipe.imagenet_train(size=64), batch_size=8),
        ...     val=lambda: Loader.eval(photos, Recipe.imagenet_eval(), batch_size=8),
        ... )
        >>> # Trainer(max_epochs=2).fit(model, data)
    """

    def __init__(
        self,
        *,
        train: Maker | None = None,
        val: SeveralMaker | None = None,
        test: SeveralMaker | None = None,
        predict: SeveralMaker | None = None,
    ) -> None:
        super().__init__()
        self._makers = {"train": train, "val": val, "test": test, "predict": predict}
        self._loaders: dict[str, list[Loader]] = {}
        self._state: dict[str, Any] = {}

    def train_dataloader(self) -> "TrainingEpochs":
        """Make the training loader, at the position of the loaded checkpoint.

        Raises:
            StateMismatchError: The checkpoint belongs to another dataset, recipe, seed or version.
        """
        [loader] = self._make("train")
        saved, self._state = self._state, {}
        if saved:
            loader.load_state_dict(saved["loader"])
        return TrainingEpochs(loader, self.trainer, saved)

    def val_dataloader(self) -> "Epochs | list[Epochs]":
        """Make the loader or loaders of the validations; within `trainer.fit` an empty list means no validation."""
        validate = self.trainer is not None and self.trainer.state.fn == "validate"
        return self._fixed("val") if validate or self._makers["val"] is not None else []

    def test_dataloader(self) -> "Epochs | list[Epochs]":
        """Make the loader or loaders of the tests."""
        return self._fixed("test")

    def predict_dataloader(self) -> "Epochs | list[Epochs]":
        """Make the loader or loaders of the predictions."""
        return self._fixed("predict")

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        """Move a batch to the trainer's device, except for what belongs on the host.

        The move blocks. A loader on a GPU (the choice of "auto" where there is one) makes its batches there, and needs none.
        """
        del dataloader_idx
        return batch if batch.images.device == device else batch.to(device)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the training loader for a checkpoint; empty before there is such a loader."""
        if "train" not in self._loaders:
            return {}
        [loader] = self._loaders["train"]
        progress = self.trainer.fit_loop.epoch_loop.batch_progress
        return {
            "loader": loader.state_dict(),
            "num_steps": len(loader),
            "ended": progress.is_last_batch
            or progress.current.ready >= self.trainer.num_training_batches,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state of a checkpoint for the training loader."""
        self._state = state_dict

    def teardown(self, stage: str) -> None:
        """End the running loops, their threads and processes."""
        del stage
        for loaders in self._loaders.values():
            for loader in loaders:
                loader.close()

    def _make(self, name: str) -> list[Loader]:
        maker = self._makers[name]
        if maker is None:
            raise LoaderError(
                f"the trainer asks for {name} data, and LoaderModule has none; give it "
                f"LoaderModule({name}=lambda: Loader(dataset, recipe, batch_size=...))"
            )
        made: Any = maker()
        several = isinstance(made, list | tuple) and made and name != "train"
        loaders = list(made) if several else [made]
        for loader in loaders:
            if not isinstance(loader, Loader):
                raise LoaderError(
                    f"LoaderModule({name}=...) made a {type(loader).__name__}; give it a function without arguments "
                    f"that returns a Loader" + ("" if name == "train" else ", or a list of them")
                )
        for before in self._loaders.get(name, []):
            if before not in loaders:
                before.close()
        self._loaders[name] = loaders
        return loaders

    def _fixed(self, name: str) -> "Epochs | list[Epochs]":
        first, *others = [Epochs(loader, lambda: 0) for loader in self._make(name)]
        return [first, *others] if others else first


class Epochs:
    """A loader with a given epoch number for each loop.

    Args:
        loader: The loader to iterate over.
        epoch: Returns the number; it is called when the first batch is asked for.
    """

    def __init__(self, loader: Loader, epoch: Callable[[], int]) -> None:
        self.loader = loader
        self._epoch = epoch

    def __iter__(self) -> Iterator[Batch]:
        """Begin the epoch when the first batch is asked for, because Lightning makes iterators that it never reads."""
        self.loader.set_epoch(self._epoch())
        yield from self.loader

    def __len__(self) -> int:
        """Return the number of steps of a full epoch, also if the loop is the rest of one, as Lightning counts."""
        return len(self.loader)


class TrainingEpochs(Epochs):
    """Epochs that continue at the position of a loaded state.

    Lightning assumes that a loader with `state_dict` and `load_state_dict` can resume, and stores its state next to that of
    the module. The loader's state is empty, because the module's state holds everything.

    Args:
        loader: The loader to iterate over, which has loaded the state.
        trainer: The trainer whose epochs it follows.
        saved: What `LoaderModule.state_dict` returned, from a checkpoint; empty where there is none.
    """

    def __init__(self, loader: Loader, trainer: Any, saved: Mapping[str, Any]) -> None:
        # Lightning's epoch number is ahead by one where a checkpoint was saved by hand after `max_steps` had ended an
        # epoch, because Lightning then goes through an empty epoch.
        self._ahead = 0
        super().__init__(
            loader, lambda: 0 if trainer.overfit_batches else trainer.current_epoch - self._ahead
        )
        self._trainer, self._saved = trainer, saved
        state = saved.get("loader", {"consumed": 0})
        # Whether the state was taken between the first and the last batch of an epoch ...
        self._is_within = state["consumed"] > 0 and state["epoch"] == loader.epoch
        # ... and not because limit_train_batches, or a hook of the user, ends all epochs there.
        self._is_cut = self._is_within and not saved.get("ended", True)
        self._reopen()

    def __iter__(self) -> Iterator[Batch]:
        """Begin the epoch, or continue within it, with the first batch.

        Raises:
            LoaderError: Lightning would continue within an epoch whose number of steps has changed.
        """
        counted = self._trainer.fit_loop.epoch_loop.batch_progress.current.ready
        before = self._saved.get("num_steps", len(self.loader))
        if (counted or self._is_cut) and before != len(self.loader):
            raise LoaderError(
                f"the checkpoint stands within an epoch that had {before} steps and has "
                f"{len(self.loader)} here; resume with the batch_size and the number of processes of the "
                f"checkpoint, or from one of ModelCheckpoint(save_on_train_epoch_end=True)"
            )
        if counted and counted >= self._trainer.num_training_batches:
            return  # Under max_steps Lightning asks for one more batch of an epoch that had ended before the checkpoint.
        if self._saved:
            if self._is_within and not counted:  # Lightning begins the next epoch
                self._warn_of_the_rest(self._saved["loader"])
                self.loader.set_epoch(self.loader.epoch + 1)
            self._ahead = self._trainer.current_epoch - self.loader.epoch
            self._saved = {}
        yield from super().__iter__()

    def _reopen(self) -> None:
        """Make Lightning continue within the epoch of the state if `max_steps` ended it and Lightning counted it as done."""
        progress = self._trainer.fit_loop.epoch_progress
        if self._is_cut and 0 < progress.current.ready == progress.current.processed:
            for counts in (progress.total, progress.current):
                counts.processed = counts.completed = counts.ready - 1
            self._trainer.fit_loop.restarting = True

    def _warn_of_the_rest(self, state: Mapping[str, Any]) -> None:
        if self._is_cut:
            warnings.warn(
                f"the checkpoint stands within epoch {state['epoch']}, after {state['consumed']:,} of "
                f"{state['length']:,} samples, and Lightning begins the next, so the others are left out; to go on within "
                f"it resume from a checkpoint of ModelCheckpoint(every_n_train_steps=...), or make the optimizer "
                f"without trainer.estimated_stepping_batches",
                stacklevel=2,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return an empty state."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Ignore the state, which is empty."""
