"""SimCLR with any objective: two augmented views of an image are positives of each other (Chen et
al., 2020).

One run from top to bottom: :meth:`SimCLR.set_up` reads the images and builds encoder, head, loss
and optimizer. :meth:`SimCLR.batches` draws the order of an epoch and the augmentation of both
views. For each batch, :meth:`~trueneg.training.loop.TrainingRun.train_epoch` sets the learning
rate, calls :meth:`SimCLR.backward` (augment, embed, loss, gradients), lets the optimizer step, and
adds the terms of the loss to the monitors. What is shared with training on pairs stands in
:mod:`trueneg.training.loop`; what an objective compares samples with, if it needs that, in
:mod:`trueneg.training.guides`.
"""

import functools
import math
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trueneg.data.false_negatives import of_views
from trueneg.data.image_loading import statistics_of
from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.training_split import ViewData
from trueneg.data.samples import Subset
from trueneg.errors import UserError
from trueneg.losses import build
from trueneg.losses.estimator_loss import ContrastiveTerms, EstimatorLoss
from trueneg.models.image_encoders import build_encoder
from trueneg.models.projection import build_head
from trueneg.models.towers.stored import PooledTower, StoredTower, StoredViews
from trueneg.randomness import seed_for
from trueneg.runtime.precision import autocast
from trueneg.specs.sections import RunSettings
from trueneg.specs.temperature import temperature_of
from trueneg.store.identity import is_trained
from trueneg.training.augment import Augmentation, build_augmentation
from trueneg.training.frozen import (
    NOTHING_FROZEN,
    Frozen,
    build_tower,
    is_tower,
    packed,
    restore_tower,
)
from trueneg.training.guides import build_guide
from trueneg.training.guides.base import GuideBatch, Rated, rate_views
from trueneg.training.loop import TrainingRun
from trueneg.training.monitors import ViewMonitors, marks_negatives
from trueneg.training.schedules import interval_of, location_of, macro_auc, scheduled_value

FIRST_VALUE = 0.5  # initial value of scheduled parameters, until the first epoch sets them


class SimCLR(TrainingRun):
    """Training on two views of each image."""

    SAMPLES = "views"
    PER_PICK = 2
    STATE = (*TrainingRun.STATE, "scheduled")
    directions = ("views",)
    false_negatives = staticmethod(of_views)

    def set_up(self, settings: RunSettings, source: ImageSource, subset: Subset) -> int:
        training = settings["training"]
        objective = settings["objective"]
        self.data = ViewData(source, subset, self.device, self.frozen.vectors)
        self.augmentation = augmentation_of(settings, source, self.frozen).to(self.device)
        network = projected_encoder(settings, source.images.shape[1], self.frozen)
        self.network = network.to(memory_format=torch.channels_last).to(self.device)
        self.embed = compiled_embedding() if training["compile"] else embed_views

        self.guide = build_guide(self.objective_model, objective, self)
        values = self.objective_model.loss_settings(objective)
        values = values if self.guide is None else self.guide.loss_settings(values)
        temperature = temperature_of(settings).initial
        self.remedy = f"raise the temperature, which is {temperature:g}"
        self.class_probability = self.data.class_probability(values.pop("class_probability", None))
        self.schedules = {
            name: value
            for name, value in values.items()
            if isinstance(value, Mapping) and "schedule" in value
        }
        # values of the scheduled parameters in this epoch
        self.scheduled = dict.fromkeys(self.schedules, FIRST_VALUE)
        self.loss = build(
            values | self.scheduled, temperature=temperature, samples=self.data.samples
        ).to(self.device)
        self.by_sample = compares_samples(self.loss)

        groups = [
            {"params": self.network.parameters()},
            {"params": self.loss.parameters(), "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.Adam(
            groups, lr=training["learning_rate"], weight_decay=training["weight_decay"], fused=True
        )
        self.monitors = ViewMonitors(
            self.data.rare, self.device, marks_negatives(self.loss), self.loss.estimator.combines
        )
        return len(self.data.images)

    @classmethod
    def initial_weights(
        cls, settings: RunSettings, source: ImageSource, subset: Subset, frozen: Frozen
    ) -> dict[str, Tensor]:
        return saved_weights(projected_encoder(settings, source.images.shape[1], frozen))

    def batches(self, count: int) -> Generator[tuple[Tensor, list[Tensor]], None, None]:
        """Yield the image indices of each batch and the augmentation parameters of both views."""
        if self.update == 0:
            self._follow_schedules()
        for name, value in self.scheduled.items():
            setattr(self.loss.estimator, name, value)
        order = torch.randperm(len(self.data.images), generator=self.generator("batches"))
        order = order.to(self.device)
        generators = [self.generator(f"augmentation {view}") for view in (1, 2)]
        drawn = self.augmentation.draw_views(
            count * self.batch_size, self.data.images.shape[-2:], generators
        )
        views = [view.to(self.device) for view in drawn]
        for update in range(self.update, count):
            batch = slice(update * self.batch_size, (update + 1) * self.batch_size)
            yield order[batch], [view[batch] for view in views]

    def backward(self, chosen: Tensor, parameters: list[Tensor]) -> tuple[ContrastiveTerms, Tensor]:
        images = self.data.images[self.processes.part(chosen)]
        drawn = [self.processes.part(view) for view in parameters]
        labels = self.data.labels[chosen]
        eta = self.class_probability
        eta = eta[chosen] if isinstance(eta, Tensor) else eta
        # Dropout, resampling and the oracle's controls can only use torch's global RNG, so each
        # step restores its state.
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            self.seed_dropout()
            views = self._embed(images, drawn)
            rated_by = functools.partial(self._rated_by, images, drawn, views)
            rated = self.rated(GuideBatch((chosen, chosen), None, rated_by))
            torch.manual_seed(seed_for(self.seed, f"objective/{self.epoch}/{self.update}"))
            terms = self.loss.terms(
                *views,
                class_probability=eta,
                labels=labels,
                index=chosen,
                unused="ignore",
                **rated._asdict(),
            )
            terms.loss.backward()
        return terms, labels

    def _embed(
        self, images: Tensor, drawn: list[Tensor], network: nn.Module | None = None
    ) -> list[Tensor]:
        """Embed this process's share of a batch, by default with the network being trained; return
        the whole batch's views.
        """
        if network is None:
            embedded = self.embed(self.network, self.augmentation, images, drawn)
        else:
            embedded = embed_views(network, self.augmentation, images, drawn)
        return [self.processes.whole(view) for view in embedded.chunk(2)]

    def _rated_by(
        self,
        images: Tensor,
        drawn: list[Tensor],
        views: list[Tensor],
        network: nn.Module | None = None,
    ) -> Rated:
        """Return the similarities according to a copy of the network; None: those of the views as
        embedded in training.
        """
        first, second = views if network is None else self._embed(images, drawn, network)
        return rate_views(first, second, self.by_sample)

    def measured(self) -> dict[str, float]:
        return self.scheduled

    def weights(self) -> dict[str, Tensor]:
        return saved_weights(self.network)

    def _follow_schedules(self) -> None:
        """Set the scheduled parameters to their values for this epoch."""
        progress = self.epoch / self.epochs
        before = (self.epoch - 1) / self.epochs
        for name, setting in self.schedules.items():
            if setting["schedule"] != "adjusted":
                self.scheduled[name] = scheduled_value(setting, progress)
            elif self.epoch == 0 or interval_of(setting, before) < interval_of(setting, progress):
                self.scheduled[name] = self.processes.same(self._measured_location(setting["link"]))

    @torch.no_grad()
    def _measured_location(self, link: str) -> float:
        """Measure BCL's α by the macro-AUC of held-out embeddings, clipped to [0.5, 0.99] (at 1,
        the nearest negative has weight 0).

        Raises:
            UserError: if the held-out images do not have two classes.
        """
        images, labels = (part.to(self.device) for part in self.data.held_out)
        self.network.eval()
        embeddings = self.network(
            self.augmentation.normalise(images).contiguous(memory_format=torch.channels_last)
        )
        self.network.train()
        area = macro_auc(embeddings, labels)
        if math.isnan(area):
            raise UserError(
                f"{self.name}: α has the schedule adjusted, which compares classes of validation"
                f" images, but among the {len(labels)} measured ones, no class has two images"
                " beside those of another class. Hold out more images with dataset.validation, or"
                " set alpha to a number."
            )
        return min(max(location_of(area, link), 0.5), 0.99)


def compares_samples(loss: EstimatorLoss) -> bool:
    """Return whether the estimator or, if it uses no similarities, the rule of the targets compares
    samples instead of views.
    """
    user = loss.estimator if loss.estimator.needs_similarity else loss.target_rule
    return getattr(user, "compares_samples", False)


def augmentation_of(
    settings: RunSettings, source: ImageSource, frozen: Frozen = NOTHING_FROZEN
) -> Augmentation | StoredViews:
    """Return the augmentation of a run: stored versions of images if the tower is frozen; towers
    normalise images themselves.
    """
    if frozen.images is not None:
        if (versions := frozen.images.values.shape[1]) < 3:
            problem = (
                f"the encoder has {versions} vectors per image; expected those of the image itself"
                " and of two augmented versions"
            )
            raise UserError(
                f"{problem} or more, because two views of an image are positives of each other."
            )
        return StoredViews(versions)
    channels = source.images.shape[1]
    statistics = (
        ([0.0] * channels, [1.0] * channels)
        if is_tower(settings, "encoder")
        else channel_statistics(source)
    )
    return build_augmentation(settings["augmentation"], *statistics)


def projected_encoder(
    settings: RunSettings,
    channels: int,
    frozen: Frozen = NOTHING_FROZEN,
    tensors: dict[str, Tensor] | None = None,
) -> nn.Module:
    """Build an encoder with its projection head, for images with these channels.

    Args:
        settings: the run's settings.
        channels: channels of the images.
        frozen: stored vectors of a frozen tower, in place of the encoder.
        tensors: content of a finished run's file, which is loaded; None: weights are loaded or
            drawn from torch's RNG.
    """
    encoder: Any
    if frozen.images is not None:
        encoder = PooledTower(StoredTower(frozen.images.dimensions))
    elif is_tower(settings, "encoder"):
        build = (
            build_tower if tensors is None else functools.partial(restore_tower, tensors=tensors)
        )
        encoder = PooledTower(build(settings, "encoder"))
    else:
        encoder = build_encoder(**settings["encoder"], in_channels=channels)
    head = build_head(encoder.dimensions, **settings["projection"])
    if not is_trained(settings):
        head = nn.Identity()
    network = nn.Sequential(OrderedDict(encoder=encoder, projection=head))
    if tensors is not None:
        network.load_state_dict(tensors)
    return network


def saved_weights(network: nn.Module) -> dict[str, Tensor]:
    """Return the content of a finished run's file: the weights, on the CPU, and the tower's files,
    unless it is frozen.
    """
    tower = getattr(network.encoder, "tower", None)
    weights = {
        name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()
    }
    return weights | ({} if tower is None else packed(tower, "encoder"))


def evaluated_encoder(
    settings: RunSettings, channels: int, frozen: Frozen, tensors: dict[str, Tensor]
) -> Any:
    """Return a finished run's encoder without its projection; if the encoder is frozen, with it: it
    is all that was trained.
    """
    network: Any = projected_encoder(settings, channels, frozen, tensors)
    if frozen.images is None or not is_trained(settings):
        return network.encoder
    network.dimensions = settings["projection"]["dimensions"] or network.encoder.dimensions
    return network


def embed_views(
    network: nn.Module, augmentation: nn.Module, images: Tensor, parameters: Sequence[Tensor]
) -> Tensor:
    """Embed augmented views of (B, C, H, W) uint8 images; returns float32 (V·B, D), ordered by
    view.

    Args:
        network: network that maps images to embeddings.
        augmentation: augmentation returned by :func:`trueneg.training.augment.build_augmentation`.
        images: the batch.
        parameters: augmentation parameters, one tensor for each of the V views.
    """
    # All views go through one forward pass, so they share batch-normalisation statistics.
    views = torch.cat([augmentation(images, drawn) for drawn in parameters]).contiguous(
        memory_format=torch.channels_last
    )
    with autocast(images.device):
        return network(views).float()


@functools.cache
def compiled_embedding() -> Callable[..., Tensor]:
    """Compile :func:`embed_views` and its backward pass with torch.compile, once for all runs of a
    process.

    The weights are inputs of the compiled code, so the network of the next seed needs no
    recompilation, and on a GPU only a new recording of its launches (``reduce-overhead``). Loss and
    optimiser are not compiled: schedules change constants of the loss, and each change would
    trigger a recompilation.

    Raises:
        UserError: on the first call of the compiled function, if this machine cannot compile.
    """
    from torch._dynamo.exc import TorchDynamoException  # slow to import, and only needed here

    # Launching kernels one by one takes longer than computing them (benchmarks/engine.md).
    compiled = torch.compile(embed_views, dynamic=False, mode="reduce-overhead")

    def embed(*arguments: Any) -> Tensor:
        torch.compiler.cudagraph_mark_step_begin()  # the last update's outputs may be overwritten
        try:
            return compiled(*arguments)
        except TorchDynamoException as error:
            raise UserError(
                f"training.compile is true, but torch.compile failed: {str(error).splitlines()[0]}"
                " Install a C++ compiler (and Triton on a GPU), or set training.compile to false."
            ) from error

    return embed


def channel_statistics(source: ImageSource) -> tuple[list[float], list[float]]:
    """Return the mean and standard deviation of each channel over images outside the official test
    split, in [0, 1].
    """
    return statistics_of(source.images, np.flatnonzero(~source.is_test))
