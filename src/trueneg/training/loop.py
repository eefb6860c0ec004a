"""The shared training loop; subclasses define the batches and the loss for two views or for
image–text pairs.
"""

import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from trueneg.data.samples import Subset
from trueneg.errors import UserError
from trueneg.planning.updates import planned_updates
from trueneg.randomness import generator_of, seed_for
from trueneg.runtime.distributed import ALONE, Processes, synchronise_norms
from trueneg.runtime.parts import load_moments, moments_of, named_tensors, part_of
from trueneg.specs.sections import RunSettings
from trueneg.store.identity import model_of
from trueneg.training.frozen import NOTHING_FROZEN, Frozen, Source
from trueneg.training.guides.base import UNRATED, Guide, GuideBatch, Rated
from trueneg.training.schedules import learning_rate_factor


class TrainingRun(ABC):
    """One run, trained epoch by epoch; its state can be saved between any two updates.

    Every draw of an epoch comes from a generator keyed by seed, purpose and epoch. All objectives
    of a seed therefore see the same samples, and a run can resume from any update without saved
    generator states.

    Subclasses define a step: :meth:`set_up` loads the data and builds the networks, the optimiser
    and the monitors, :meth:`batches` splits an epoch into batches, and :meth:`backward` computes
    the gradients of a batch.

    Args:
        settings: resolved settings by section, including ``training`` and ``objective``.
        seed: the run's seed, one of the study's seeds.
        source: all images, or all images and sentences.
        subset: subset of the source to train on.
        device: device to train on.
        processes: processes that share the run, each with its own device.
        frozen: stored vectors of the frozen towers.

    Attributes:
        SAMPLES: unit counted in rows and records, such as ``views``.
        PER_PICK: units per sample in a batch, such as 2 views per image.
        STATE: names of attributes with plain values that are needed to resume a run; subclasses add
            their own.
        directions: directions in which a sample is an anchor; for views, there is one.
        false_negatives: function of source, subset and settings that returns what is known before
            training.
        objective_model: class of the objective's settings, which says what the objective needs.
        data: the training split, with ``source``, ``labels``, and the number of ``samples``.
        guide: rates the similarity of the samples of each batch; None if the objective needs no
            guide.
        network: all trained modules but the loss.
        loss: the objective's loss, whose parameters, if any, are trained, too; each epoch's row has
            those of one value.
        optimizer: optimizer of the parameters of the network and the loss.
        monitors: running means reported in an epoch's row.
        remedy: advice in case of divergence, besides lowering the learning rate.
        epoch: number of finished epochs.
        update: number of updates done in the unfinished epoch.
        seconds: duration of these updates.

    Raises:
        UserError: if there are fewer samples than the batch size, or no updates after the warm-up.
    """

    SAMPLES: ClassVar[str]
    PER_PICK: ClassVar[int]
    STATE: ClassVar[tuple[str, ...]] = ("epoch", "update", "seconds")
    directions: tuple[str, ...]
    false_negatives: Any
    network: nn.Module
    loss: Any
    optimizer: torch.optim.Optimizer
    monitors: Any  # RunningMeans; its method `add` takes the return values of :meth:`backward`
    remedy: str
    data: Any
    guide: Guide | None

    def __init__(
        self,
        settings: RunSettings,
        seed: int,
        source: Any,
        subset: Any,
        device: torch.device,
        processes: Processes = ALONE,
        frozen: Frozen = NOTHING_FROZEN,
    ):
        self.frozen = frozen
        self.training = settings["training"]
        self.seed = seed
        self.device = device
        self.processes = processes
        self.objective_model: Any = model_of(settings, "objective")
        self.name = settings["objective"]["name"]
        self.batch_size = self.training["batch_size"]
        self.epoch = self.update = 0
        self.seconds = 0.0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for(seed, "weights"))
            available = self.set_up(settings, source, subset)
        if processes.count > 1:
            synchronise_norms(self.network)
        self.updates_per_epoch, self.updates = planned_updates(self.training, available, seed)
        self.epochs = math.ceil(self.updates / self.updates_per_epoch)
        self.warmup = self.training.get("warmup_updates", 0)

    @abstractmethod
    def set_up(self, settings: RunSettings, source: Any, subset: Any) -> int:
        """Set ``data``, ``network`` (with weights drawn from torch's RNG), ``guide``,
        ``optimizer``, ``monitors`` and ``remedy``.

        Returns:
            The number of samples per epoch.
        """

    @classmethod
    def untrained_weights(
        cls,
        settings: RunSettings,
        seed: int,
        source: Source,
        subset: Subset,
        frozen: Frozen = NOTHING_FROZEN,
    ) -> dict[str, Tensor]:
        """Return the content of the file of a run that trains nothing: released networks, or the
        initial ones of a seed; without frozen towers.

        Raises:
            UserError: if the weights cannot be loaded, or the splits overlap.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for(seed, "weights"))
            return cls.initial_weights(settings, source, subset, frozen)

    @classmethod
    @abstractmethod
    def initial_weights(
        cls, settings: RunSettings, source: Any, subset: Subset, frozen: Frozen
    ) -> dict[str, Tensor]:
        """Return the weights before training, as :meth:`weights`; draws from torch's RNG."""

    def seed_dropout(self) -> None:
        """Seed torch's RNG for the dropout of an update."""
        # Dropout differs between processes; the first process has the same draws as single-process
        # training.
        process = f"/process {self.processes.rank}" if self.processes.rank else ""
        torch.manual_seed(seed_for(self.seed, f"dropout/{self.epoch}/{self.update}/0{process}"))

    @abstractmethod
    def batches(self, count: int) -> Generator[tuple[Any, ...], None, None]:
        """Yield the arguments of :meth:`backward` for each of this epoch's first ``count`` updates
        that are not yet done.
        """

    @abstractmethod
    def backward(self, *batch: Any) -> tuple[Any, ...]:
        """Add the gradients of a batch, and return the arguments of ``monitors.add``."""

    @abstractmethod
    def measured(self) -> dict[str, float]:
        """Return additional values for an epoch's row."""

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """Return the tensors to save in the file of a finished run, on the CPU."""

    def train_epoch(self, after_update: Callable[[], None] | None = None) -> dict[str, float]:
        """Train one epoch, or the rest of an interrupted one (the last may be cut short by
        ``updates``).

        Args:
            after_update: called after every update; it may call :meth:`state`.

        Returns:
            Loss and monitors, learning rate, seconds and samples per second.

        Raises:
            UserError: if the loss becomes NaN or infinite.
        """
        began = time.perf_counter() - self.seconds
        self.network.train()
        first = self.epoch * self.updates_per_epoch
        count = min(self.updates_per_epoch, self.updates - first)
        with contextlib.closing(self.batches(count)) as batches:
            for update, batch in zip(range(self.update, count), batches, strict=True):
                self._set_learning_rate(first + update)
                self.optimizer.zero_grad(set_to_none=True)
                monitored = self.backward(*batch)
                self.processes.average_gradients(
                    [*self.network.parameters(), *self.loss.parameters()]
                )
                self.optimizer.step()
                self.monitors.add(*monitored)
                self.update = update + 1
                self.seconds = time.perf_counter() - began
                if self.guide is not None:
                    self.guide.after_update()
                if after_update is not None:
                    after_update()
        row = self.monitors.read()
        seconds = time.perf_counter() - began
        learned = {name.rpartition(".")[2]: value for name, value in self.loss.named_parameters()}
        row |= self.measured() | {
            name: value.item() for name, value in learned.items() if value.numel() == 1
        }
        self.epoch = self.epoch + 1
        self.update = 0
        self.seconds = 0.0
        self._refuse_divergence(row["loss"], first + 1, first + count)
        return row | {
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "seconds": seconds,
            f"{self.SAMPLES}_per_second": self.PER_PICK * count * self.batch_size / seconds,
        }

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the run's state as tensors (CPU, contiguous) and plain values; call between
        updates or epochs.
        """
        modules = {
            name: getattr(self, name).state_dict() for name in ("network", "loss", "monitors")
        }
        tensors = named_tensors(optimizer=moments_of(self.optimizer), **modules)
        if self.guide is not None:
            tensors |= self.guide.state_dict()
        values = {name: getattr(self, name) for name in self.STATE} | {
            "learning_rate": self.optimizer.param_groups[0]["lr"]
        }
        return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, values

    def load_state(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore a state returned by :meth:`state` of a run created with the same arguments."""
        for name in ("network", "loss", "monitors"):
            getattr(self, name).load_state_dict(part_of(tensors, name))
        if self.guide is not None:
            self.guide.load_state_dict({name: tensors[name] for name in self.guide.state_dict()})
        load_moments(self.optimizer, part_of(tensors, "optimizer"), values["learning_rate"])
        for name in self.STATE:
            setattr(self, name, values[name])

    @property
    def updates_done(self) -> int:
        """Number of updates since the start of the run."""
        # the last epoch may be shorter
        return min(self.epoch * self.updates_per_epoch + self.update, self.updates)

    @torch.no_grad()
    def rated(self, batch: GuideBatch) -> Rated:
        """Return the guide's similarities of a batch."""
        return UNRATED if self.guide is None else self.guide.rate(batch)

    def generator(self, purpose: str) -> torch.Generator:
        """Return a generator for one purpose in this epoch."""
        return generator_of(seed_for(self.seed, f"{purpose}/{self.epoch}"))

    def _refuse_divergence(self, loss: float, first: int, last: int) -> None:
        """Raise an error if the mean loss of an epoch's updates is NaN or infinite."""
        if not math.isfinite(loss):
            raise UserError(
                f"The loss became {loss} in epoch {self.epoch} of {self.epochs} (updates {first} to"
                f" {last} of {self.updates}, objective {self.name}, seed {self.seed}). The step"
                " size is probably too large: lower training.learning_rate, which is"
                f" {self.training['learning_rate']:g}, or {self.remedy}."
            )

    def _set_learning_rate(self, done: int) -> None:
        if done < self.warmup:
            factor = (done + 1) / self.warmup
        else:
            factor = learning_rate_factor(
                self.training["schedule"], (done - self.warmup) / (self.updates - self.warmup)
            )
        for group in self.optimizer.param_groups:
            group["lr"] = self.training["learning_rate"] * factor
