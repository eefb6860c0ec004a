"""SimCLR with any objective: two augmented views of an image are positives of each other (Chen et al., 2020)."""

import functools
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trueneg.class_probability import from_class_frequency
from trueneg.data.images.image_source import ImageSource, data_checksum, read_source
from trueneg.data.images.subsets import Subset, read_subsets
from trueneg.errors import UserError
from trueneg.losses import build
from trueneg.models.image_encoders import build_encoder
from trueneg.models.projection import ProjectionHead
from trueneg.randomness import seed_for
from trueneg.runtime.precision import autocast
from trueneg.training.augment import build_augmentation
from trueneg.training.guides import UNRATED, Rated, moving_average, rate_features, rate_labels, rate_views, read_features
from trueneg.training.image_loading import statistics_of
from trueneg.training.loop import Settings, TrainingRun
from trueneg.training.monitors import ViewMonitors, marks_negatives
from trueneg.training.schedules import interval_of, macro_auc, scheduled_value

FIRST_VALUE = 0.5  # initial value of scheduled parameters, until the first epoch sets them
MEASURED_IMAGES = 1000  # number of held-out images used to measure a parameter


class SimCLR(TrainingRun):
    """Training on two views of each image."""

    SAMPLES, PER_PICK = "views", 2
    STATE = (*TrainingRun.STATE, "scheduled")
    read_source, read_subsets = staticmethod(read_source), staticmethod(read_subsets)
    data_checksum = staticmethod(data_checksum)

    def set_up(self, settings: Settings, source: ImageSource, subset: Subset) -> tuple[int, str]:
        training, projection, objective = settings["training"], settings["projection"], dict(settings["objective"])
        self.images = torch.from_numpy(source.images[subset.train]).to(self.device)
        labels = source.labels[subset.train]
        # Each unlabelled image gets its own class, so it has no known false negatives.
        self.labels = torch.from_numpy(np.where(labels < 0, -1 - np.arange(len(labels)), labels)).to(self.device)
        held_out = subset.validation[:MEASURED_IMAGES]
        self.held_out = torch.from_numpy(source.images[held_out]), torch.from_numpy(source.labels[held_out])
        self.augmentation = build_augmentation(settings["augmentation"], *channel_statistics(source)).to(self.device)
        if objective["name"] == "glofnd":
            self._with_thresholds(objective, len(self.images))
        temperature = objective.pop("temperature", None) or training["temperature"]
        self.remedy = f"raise the temperature, which is {temperature:g}"
        self.class_probability = self._class_probability(objective, labels, subset)
        self.guide, targets = objective.pop("guide", None), objective.get("targets")
        finds = targets is not None and targets["name"] == "fnc"
        self.by_sample = objective["name"] == "remove" or (finds and objective["name"] != "guided")
        self.schedules = {name: value for name, value in objective.items() if isinstance(value, Mapping) and "schedule" in value}
        self.scheduled = dict.fromkeys(self.schedules, FIRST_VALUE)  # values of the scheduled parameters in this epoch
        self.loss: Any = build(objective | self.scheduled, temperature=temperature)
        encoder: Any = build_encoder(**settings["encoder"], in_channels=source.images.shape[1])
        hidden, out = projection["hidden"], projection["dimensions"]
        head = ProjectionHead(encoder.dimensions, hidden, out, batch_norm=projection["batch_norm"])
        network = nn.Sequential(OrderedDict(encoder=encoder, projection=head))
        self.network = network.to(memory_format=torch.channels_last).to(self.device)
        self.average = moving_average(self.network, self.guide)
        if self.guide is not None and self.guide["name"] == "features":
            frozen = read_features(self.guide["path"], {"images": len(source.images)}, source.name)["images"]
            self.features = frozen[torch.from_numpy(subset.train)].to(self.device)
        rate, decay = training["learning_rate"], training["weight_decay"]
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=rate, weight_decay=decay, fused=True)
        rare = torch.tensor([label in subset.rare_classes for label in range(len(source.class_names))])
        self.monitors = ViewMonitors(rare, self.device, marks=marks_negatives(objective))
        self.embed = compiled_embedding() if training["compile"] else embed_views
        return len(self.images), f"the subset of seed {self.seed} contains {len(self.images)} images"

    def batches(self, count: int) -> Generator[tuple[Tensor, list[Any]], None, None]:
        """Yield the image indices of each batch and the augmentation parameters of both views."""
        if self.update == 0:
            self._follow_schedules()
        for name, value in self.scheduled.items():
            setattr(self.loss.estimator, name, value)
        order = torch.randperm(len(self.images), generator=self.generator("batches")).to(self.device)
        drawn, size = count * self.batch_size, self.images.shape[-2:]
        views = [self.augmentation.draw(drawn, size, self.generator(f"augmentation {view}")).to(self.device) for view in (1, 2)]
        for update in range(self.update, count):
            batch = slice(update * self.batch_size, (update + 1) * self.batch_size)
            yield order[batch], [view[batch] for view in views]

    def backward(self, chosen: Tensor, parameters: list[Any]) -> tuple[Any, ...]:
        images, drawn = self.images[self.processes.part(chosen)], [self.processes.part(view) for view in parameters]
        views = self.embed(self.network, self.augmentation, images, drawn).chunk(2)
        first, second = (self.processes.whole(view) for view in views)
        rated = self._rated(chosen, images, drawn, first, second)
        probability = None if self.class_probability is None else self.class_probability[chosen]
        labels = self.labels[chosen]
        # Resampling and the oracle's controls can only use torch's global RNG, so each step restores its state.
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed_for(self.seed, f"objective/{self.epoch}/{self.update}"))
            terms = self.loss.terms(first, second, class_probability=probability, labels=labels, **rated._asdict())
            terms.loss.backward()
        return terms, labels

    @torch.no_grad()
    def _rated(self, chosen: Tensor, images: Tensor, drawn: list[Any], first: Tensor, second: Tensor) -> Rated:
        """Return the guide's similarities for the batch, or the batch's own similarities with learned thresholds."""
        if self.thresholds is not None:
            rated = rate_views(first, second, by_sample=False)
            return rated._replace(positive_similarity=self._thresholds_of(chosen, rated.negative_similarity))
        if self.guide is None:
            return UNRATED
        if self.guide["name"] == "labels":
            return rate_labels(self.labels[chosen])
        if self.guide["name"] == "features":
            return rate_features(self.features[chosen])
        if self.average is not None:
            views = embed_views(self.average.module, self.augmentation, images, drawn).chunk(2)
            first, second = (self.processes.whole(view) for view in views)
        return rate_views(first, second, self.by_sample)

    def measured(self, seconds: float) -> dict[str, float]:
        return self.scheduled

    def _class_probability(self, objective: dict[str, Any], labels: np.ndarray, subset: Subset) -> Tensor | None:
        """Return per-image η if it varies between training images; otherwise, replace a name for η in `objective` with its value.

        The η of an unlabelled image is 0, as in the oracle: nothing is corrected where the class is unknown.
        """
        value = objective.get("class_probability")
        if value in ("low", "high"):
            objective["class_probability"] = subset.eta_low if value == "low" else subset.eta_high
        if value != "true":
            return None
        objective["class_probability"] = None  # each batch passes its own
        eta, labelled = torch.zeros(len(labels)), labels >= 0
        eta[labelled] = torch.as_tensor(from_class_frequency(labels[labelled]), dtype=torch.float32)
        return eta.to(self.device)

    def _follow_schedules(self) -> None:
        """Set the scheduled parameters to their values for this epoch."""
        progress, before = self.epoch / self.epochs, (self.epoch - 1) / self.epochs
        for name, setting in self.schedules.items():
            if setting["schedule"] != "adjusted":
                self.scheduled[name] = scheduled_value(setting, progress)
            elif self.epoch == 0 or interval_of(setting, before) < interval_of(setting, progress):
                self.scheduled[name] = self.processes.same(self._measured_location(setting["by"]))

    @torch.no_grad()
    def _measured_location(self, by: str) -> float:
        """Measure BCL's α: macro-AUC of held-out embeddings, clipped to [0.5, 0.99] (at 1, the nearest negative has weight 0)."""
        images, groups = (part.to(self.device) for part in self.held_out)
        if by == "labels":
            views = self.augmentation.normalise(images)
        else:
            draws, size = self.generator("schedule"), images.shape[-2:]
            drawn = [self.augmentation.draw(len(images), size, draws).to(self.device) for _ in range(2)]
            views = torch.cat([self.augmentation(images, parameters) for parameters in drawn])
            groups = torch.arange(len(images), device=self.device).repeat(2)
        self.network.eval()
        embeddings = self.network(views.contiguous(memory_format=torch.channels_last))
        self.network.train()
        return min(max(macro_auc(embeddings, groups), 0.5), 0.99)


def embed_views(network: nn.Module, augmentation: nn.Module, images: Tensor, parameters: Sequence[Any]) -> Tensor:
    """Embed augmented views of (B, C, H, W) uint8 images; returns float32 (V·B, D), ordered by view.

    Args:
        network: network that maps images to embeddings.
        augmentation: augmentation returned by :func:`trueneg.training.augment.build_augmentation`.
        images: the batch.
        parameters: augmentation parameters, one tensor for each of the V views.
    """
    # All views go through one forward pass, so they share batch-normalisation statistics.
    views = torch.cat([augmentation(images, drawn) for drawn in parameters]).contiguous(memory_format=torch.channels_last)
    with autocast(images.device):
        return network(views).float()


@functools.cache
def compiled_embedding() -> Callable[..., Tensor]:
    """Compile :func:`embed_views` and its backward pass with torch.compile, once for all runs of a process.

    The weights are inputs of the compiled code, so the network of the next seed needs no recompilation. Loss and optimiser are
    not compiled: schedules change constants of the loss, and each change would trigger a recompilation.

    Raises:
        UserError: on the first call of the compiled function, if this machine cannot compile.
    """
    from torch._dynamo.exc import TorchDynamoException  # slow to import, and only needed here

    compiled = torch.compile(embed_views, dynamic=False)

    def embed(*arguments: Any) -> Tensor:
        try:
            return compiled(*arguments)
        except TorchDynamoException as error:
            raise UserError(
                f"training.compile is true, but torch.compile failed: {str(error).splitlines()[0]} Install a C++ compiler (and "
                "Triton on a GPU), or set training.compile to false."
            ) from error

    return embed


def channel_statistics(source: ImageSource) -> tuple[list[float], list[float]]:
    """Return the mean and standard deviation of each channel over images outside the official test split, in [0, 1]."""
    return statistics_of(source.images, np.flatnonzero(~source.is_test))
