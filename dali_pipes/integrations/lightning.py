"""Use loaders in a Lightning Trainer, which stores their states in its checkpoints and sets their epochs."""

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
"""A function that makes a loader; it is called after torch.distributed was started, so that rank and world size are
known."""

SeveralMaker = Callable[[], Loader | Sequence[Loader]]
"""A function that makes one loader, or several; Lightning iterates over them one after the other and numbers them by
`dataloader_idx`."""


class LoaderModule(LightningDataModule):  # type: ignore[misc]  # a class of any type where Lightning is not checked
    """A LightningDataModule of loaders that resumes exactly, also in the middle of an epoch.

    Each argument is called in every process when the trainer requests that loader::

        data = LoaderModule(
            train=lambda: Loader(photos, Recipe.imagenet_train(), batch_size=256),
            val=lambda: Loader.eval(others, Recipe.imagenet_eval(), batch_size=256),
        )
        trainer.fit(model, data, ckpt_path=...)

    The loaders take rank and world size from torch.distributed, and use the device that Lightning assigned to the
    process. Training uses the trainer's epoch numbers. Every validation, test and prediction, and training with
    `overfit_batches`, uses epoch 0, and therefore equal samples and draws each time. Lightning wraps no DataLoader,
    sampler or collation around a loader.

    The loops yield `Batch`, which `training_step` receives. Lightning cannot find its size, so log with
    ``self.log(name, value, batch_size=len(batch))``. Strategies that start processes by pickling need named functions
    or functools.partial instead of lambdas.

    Every checkpoint resumes exactly, also the last one of a training that `max_steps` ended within an epoch: Lightning
    counts that epoch as finished, and this module corrects the count.

    Args:
        train: A function that makes the loader of `trainer.fit`.
        val: A function that makes the loader of the validations, or a list of loaders; None means no validation.
        test: A function that makes the loader of `trainer.test`, or a list of loaders.
        predict: A function that makes the loader of `trainer.predict`, or a list of loaders.

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
        """Make the loader or loaders of the validations; in `trainer.fit`, an empty list means no validation."""
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
        """Move a batch to the trainer's device, except for data that belongs on the host.

        The copy is synchronous. A loader on a GPU ("auto" chooses it if there is one) makes its batches there, so
        nothing is copied.
        """
        del dataloader_idx
        return batch if batch.images.device == device else batch.to(device)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the training loader for a checkpoint; empty before the loader is made."""
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
        """Store the state of a checkpoint until the training loader is made."""
        self._state = state_dict

    def teardown(self, stage: str) -> None:
        """End the running loops with their threads and processes."""
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
    """A loader whose loops get their epoch numbers from a function.

    Args:
        loader: The loader to iterate over.
        epoch: A function that returns the epoch number; called when the first batch is requested.
    """

    def __init__(self, loader: Loader, epoch: Callable[[], int]) -> None:
        self.loader = loader
        self._epoch = epoch

    def __iter__(self) -> Iterator[Batch]:
        """Start the epoch when the first batch is requested, because Lightning makes iterators that it never reads."""
        self.loader.set_epoch(self._epoch())
        yield from self.loader

    def __len__(self) -> int:
        """Return the number of steps of a full epoch, even if the loop is only the rest of one, as Lightning expects."""
        return len(self.loader)


class TrainingEpochs(Epochs):
    """The training loader, whose first loop continues at the position of a loaded state.

    Lightning assumes that a loader with `state_dict` and `load_state_dict` can resume, and stores its state next to
    that of the module. This state is empty, because the module's state holds everything.

    Args:
        loader: The loader, which has loaded the state already.
        trainer: The trainer that sets the epochs.
        saved: The result of `LoaderModule.state_dict` from a checkpoint; empty without a checkpoint.
    """

    def __init__(self, loader: Loader, trainer: Any, saved: Mapping[str, Any]) -> None:
        # Lightning's epoch number is one too high if a checkpoint was saved by hand after `max_steps` had ended an
        # epoch, because Lightning then runs through an empty epoch.
        self._ahead = 0
        super().__init__(
            loader, lambda: 0 if trainer.overfit_batches else trainer.current_epoch - self._ahead
        )
        self._trainer, self._saved = trainer, saved
        state = saved.get("loader", {"consumed": 0})
        # Whether the state was taken between the first and the last batch of an epoch ...
        self._is_within = state["consumed"] > 0 and state["epoch"] == loader.epoch
        # ... and not because limit_train_batches or a user's hook ends every epoch there.
        self._is_cut = self._is_within and not saved.get("ended", True)
        self._reopen()

    def __iter__(self) -> Iterator[Batch]:
        """Start the epoch, or continue within it, when the first batch is requested.

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
            return  # With max_steps, Lightning requests one more batch of an epoch that was complete before the checkpoint.
        if self._saved:
            if self._is_within and not counted:  # Lightning starts the next epoch
                self._warn_of_the_rest(self._saved["loader"])
                self.loader.set_epoch(self.loader.epoch + 1)
            self._ahead = self._trainer.current_epoch - self.loader.epoch
            self._saved = {}
        yield from super().__iter__()

    def _reopen(self) -> None:
        """Make Lightning continue the epoch of the state if `max_steps` ended it and Lightning counted it as complete."""
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
