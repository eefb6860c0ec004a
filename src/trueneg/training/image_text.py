"""Image–text training with any objective: an image and a sentence of its report are positives of each other."""

import contextlib
import functools
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trueneg.data.false_negatives import of_pairs
from trueneg.data.image_loading import statistics_of
from trueneg.data.pairs.pair_source import PairSource, read_pairs
from trueneg.data.pairs.pair_splits import PairSubset, read_pair_subsets, refuse_leakage
from trueneg.data.pairs.training_split import PairData, PairIndices
from trueneg.losses.cross_modal import DIRECTIONS
from trueneg.models.region_similarity import ImageEmbeddings
from trueneg.randomness import seed_for
from trueneg.runtime.precision import autocast
from trueneg.training.frozen import NOTHING_FROZEN, Frozen
from trueneg.training.guides import build_guide
from trueneg.training.guides.base import Batch, Rated, rate_pairs
from trueneg.training.image_text_networks import build_networks, finished_tensors, normalises
from trueneg.training.image_text_objectives import ImageTextObjective, data_checksum
from trueneg.training.loop import Settings, TrainingRun
from trueneg.training.masked_words import MaskedWordHead, masked_positions
from trueneg.training.monitors import ObjectiveTerms, PairMonitors
from trueneg.training.text_inputs import text_inputs

OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


class Inputs(NamedTuple):
    """What a process encodes of a batch: images, their augmentation parameters, inputs of the text encoder, and their lengths."""

    images: Tensor
    parameters: Tensor
    tokens: dict[str, Any]
    lengths: Tensor


class ImageText(TrainingRun):
    """Training on image–sentence pairs.

    Raises:
        UserError: if a patient is in two splits, or if the settings do not match the source; also see :class:`TrainingRun`.
    """

    SAMPLES, PER_PICK = "pairs", 1
    remedy = "raise training.warmup_updates"
    STATE = (*TrainingRun.STATE, "waited")
    masked: MaskedWordHead  # of objectives that mask words
    read_source, read_subsets = staticmethod(read_pairs), staticmethod(read_pair_subsets)
    data_checksum, false_negatives = staticmethod(data_checksum), staticmethod(of_pairs)

    def set_up(self, settings: Settings, source: PairSource, subset: PairSubset) -> int:
        refuse_leakage(source, subset)
        training, objective, similarity = settings["training"], settings["objective"], with_overrides(settings)
        vectors = self.frozen.vectors
        if vectors is not None and with_overrides(settings)["aggregation"] == "global":
            vectors = vectors[..., :1]  # regions are needed for evaluation only
        self.data = PairData(source, subset, self.device, vectors)
        self.waited = 0.0  # seconds spent waiting for images in the unfinished epoch
        statistics = ([], []) if normalises(settings) else statistics_of(source.images, subset.train)
        described, channels = {**settings, "similarity": similarity}, source.images.shape[1]
        self.networks = build_networks(described, self.data.sentences, channels, statistics, self.frozen)
        self.model, self.augmentation = self.networks.model.to(self.device), self.networks.augmentation.to(self.device)
        self.network = nn.ModuleDict({"model": self.model})
        self.masked_words_weight, self.mask_share = (objective.get(key) for key in ("masked_words_weight", "mask_share"))
        if self.mask_share is not None:  # drawn last, so all objectives of a seed share the other weights
            config = self.model.text_encoder.bert.config
            self.masked = self.network["masked"] = MaskedWordHead(config.hidden_size, config.vocab_size).to(self.device)
        self.tokens = text_inputs(self.networks, self.data.texts, settings["text_encoder"].get("truncate", True), self.device)
        self.directions = DIRECTIONS[objective.get("directions", "both")]
        self.guide = build_guide(self.objective_model, objective, self)
        aggregation = similarity["aggregation"]
        self.objective = ImageTextObjective(self.objective_model, objective, self.data, aggregation, self.guide)
        self.each_part = similarity["combined"] == "losses"
        self.optimizer = optimizer_of(self.network, training)
        self.monitors = PairMonitors(self.data.groups, self.objective.marks)
        return self.data.units(training["unit"])

    def batches(self, count: int) -> Generator[tuple[PairIndices, Inputs], None, None]:
        """Yield the pairs of each whole batch and this process's share of their images and sentences."""
        size = self.batch_size
        drawn = self.data.epoch(self.training["unit"], self.generator("pairs"))
        texts = self.data.text_numbers[drawn.sentences]
        pairs = PairIndices(*(values.to(self.device) for values in drawn))
        draws = self.augmentation.draw(count * size, self.data.images.size, self.generator("augmentation")).to(self.device)
        same = torch.stack([self.data.of_own_report(batch).sum() for batch in pairs.images[: count * size].split(size)])
        self.share_of_own_report = (same.float().mean() - size) / (size * (size - 1))
        remaining = drawn.images[self.update * size : count * size].split(size)
        numbers = torch.cat([self.processes.part(batch) for batch in remaining])
        with contextlib.closing(self.data.images.batches(numbers, size // self.processes.count)) as loaded:
            for update, (images, waited) in zip(range(self.update, count), loaded, strict=True):
                self.waited += waited
                batch = slice(update * size, (update + 1) * size)
                parameters, numbers = (self.processes.part(each[batch]) for each in (draws, texts))
                yield pairs.part(batch), Inputs(images, parameters, self.tokens.batch(numbers), self.tokens.lengths[numbers])

    def backward(self, pairs: PairIndices, inputs: Inputs) -> tuple[Any, ...]:
        # Dropout and resampling can only use torch's global RNG, so each step restores its state.
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            texts, images = self._embed(inputs, self.model)
            parts = list(self.model.region_similarity.parts(texts, images).values())
            scores = torch.stack(parts).mean(0)
            rated = self.rated(Batch(pairs._asdict(), functools.partial(self._rated_by, inputs, scores)))
            torch.manual_seed(seed_for(self.seed, f"objective/{self.epoch}/{self.update}"))
            if self.objective.on_embeddings:
                terms = self.objective.of_embeddings(texts, images.pooled, pairs)
            else:
                terms = self._mean_terms(parts if self.each_part else [scores], pairs, rated)
            terms.loss.backward()
            masked = self._backward_masked_words(inputs)
        return terms, masked, scores.detach().diagonal(), pairs.sentences

    def _rated_by(self, inputs: Inputs, scores: Tensor, network: Any = None) -> Rated:
        """Return the similarities according to a copy of the network; None: the scores of the network being trained."""
        if network is None:
            return rate_pairs(scores)
        model = network.get_submodule("model")
        return rate_pairs(model.region_similarity(*self._embed(inputs, model)))

    def _mean_terms(self, similarities: Sequence[Tensor], pairs: PairIndices, rated: Rated) -> ObjectiveTerms:
        """Return the mean of the objective's terms over several similarities of the same pairs."""
        scale = self.model.logit_scale()
        several = [self.objective.of_similarities(similarity, scale, pairs, rated) for similarity in similarities]
        return ObjectiveTerms(*(torch.stack(values).mean(0) for values in zip(*several, strict=True)))

    def measured(self, seconds: float) -> dict[str, float]:
        """Return the logit scale, waiting for images (0 if resident), the own report's share of negatives, and any threshold.

        The share is measured before any are left out (``own_report``).
        """
        waiting, self.waited = self.waited / seconds, 0.0
        of_guide = {} if self.guide is None else self.guide.measured
        measured = {"logit_scale": self.model.logit_scale().item(), "waiting": waiting}
        return measured | {"share of own report": self.share_of_own_report.item(), **of_guide}

    def weights(self) -> dict[str, Tensor]:
        """Return the tensors, on the CPU, that :func:`trueneg.training.image_text_networks.read_networks` restores."""
        return finished_tensors(self.networks)

    def _embed(self, inputs: Inputs, model: Any) -> tuple[Tensor, ImageEmbeddings]:
        """Embed this process's share of a batch, and return the embeddings of the whole batch: texts (B, D), and images."""
        # Dropout differs between processes; the first process has the same draws as single-process training.
        process = f"/process {self.processes.rank}" if self.processes.rank else ""
        torch.manual_seed(seed_for(self.seed, f"dropout/{self.epoch}/{self.update}/0{process}"))
        images = self.augmentation(inputs.images, inputs.parameters)
        with autocast(self.device):
            pooled, regions = model.embed_images(images.contiguous(memory_format=torch.channels_last))
            texts = model.embed_texts(**inputs.tokens)
        texts, pooled = (self.processes.whole(part.float()) for part in (texts, pooled))
        return texts, ImageEmbeddings(pooled, None if regions is None else self.processes.whole(regions.float()))

    def _backward_masked_words(self, inputs: Inputs) -> Tensor:
        """Add the gradients of the masked-word loss, and return its contribution to the total loss."""
        if self.mask_share is None:
            return torch.zeros((), device=self.device)
        # One draw per position of the longest sentence overall, so the result does not depend on the batch's padding.
        longest = int(self.tokens.lengths.max())
        draws = torch.rand(self.batch_size, longest, generator=self.generator(f"masked words/{self.update}"))
        # Selected on the CPU: their number determines the shapes below, and reading it from a GPU would wait for all queued work.
        mask = masked_positions(self.processes.part(draws), inputs.lengths, self.mask_share)
        places = mask.flatten().nonzero()[:, 0].to(self.device, non_blocking=True)
        count = self.processes.sum(torch.full((), len(places), device=self.device)).clamp(min=1)
        bert, mask_id = self.model.text_encoder.bert, self.networks.tokenizer.mask_token_id
        with autocast(self.device):
            loss = self.masked_words_weight * self.masked(bert, inputs.tokens, places, mask_id) / count
        (self.processes.count * loss).backward()  # gradients are averaged over processes
        return self.processes.sum(loss.detach())


def with_overrides(settings: Settings) -> dict[str, Any]:
    """Return the settings of the similarity, with those that the objective overrides."""
    similarity = dict(settings["similarity"])
    overrides = {key: settings["objective"].get(key) for key in ("logit_scale", "learned_logit_scale")}
    return similarity | {key: value for key, value in overrides.items() if value is not None}


def optimizer_of(network: nn.Module, training: Mapping[str, Any]) -> torch.optim.Optimizer:
    """Return the optimizer of a network's trained parameters."""
    # No weight decay on biases, norms and the logit scale: decay would pull the scale to 1.
    learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in learned if parameter.ndim > 1], "weight_decay": training["weight_decay"]},
        {"params": [parameter for parameter in learned if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    return OPTIMIZERS[training["optimizer"]](groups, lr=training["learning_rate"], fused=True)


class ReleasedNetworks:
    """A run that evaluates networks without training. The engine treats it as image–text training with zero epochs.

    Args:
        settings: see :class:`ImageText`; ``objective.name`` is ``released`` or ``untrained``.
        seed: the study's seed; weights that are not loaded equal the initial weights of a training run with this seed.
        source: images used for evaluation.
        subset: subset of the source; its training split defines the vocabulary of a new text encoder and, unless the image
            encoder has its own, the normalisation of images.
        device, processes: not used.
        frozen: stored vectors of the frozen towers.

    Raises:
        UserError: if the weights cannot be loaded, or a patient is in two splits.
    """

    epochs = epoch = update = updates = batch_size = 0

    def __init__(
        self,
        settings: Settings,
        seed: int,
        source: PairSource,
        subset: PairSubset,
        device: Any = None,
        processes: Any = None,
        frozen: Frozen = NOTHING_FROZEN,
    ):
        refuse_leakage(source, subset)
        statistics = ([], []) if normalises(settings) else statistics_of(source.images, subset.train)
        sentences = PairData(source, subset, torch.device("cpu")).sentences
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for(seed, "weights"))
            self._networks = build_networks(settings, sentences, source.images.shape[1], statistics, frozen)

    def weights(self) -> dict[str, Tensor]:
        """Return the tensors that :func:`~trueneg.training.image_text_networks.read_networks` restores."""
        return finished_tensors(self._networks)
