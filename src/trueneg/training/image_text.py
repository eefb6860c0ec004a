"""Image–text training with any objective: an image and a sentence of its report are positives of
each other.
"""

import contextlib
from collections.abc import Generator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trueneg.data.false_negatives import of_pairs
from trueneg.data.image_loading import statistics_of
from trueneg.data.pairs.pair_source import PairSource, read_pairs
from trueneg.data.pairs.training_split import PairData, PairIndices
from trueneg.data.samples import Subset, read_subsets, refuse_leakage
from trueneg.models.region_similarity import ImageEmbeddings
from trueneg.randomness import seed_for
from trueneg.runtime.precision import autocast
from trueneg.training.frozen import NOTHING_FROZEN, Frozen
from trueneg.training.image_text_networks import build_networks, finished_tensors, normalises
from trueneg.training.loop import Settings
from trueneg.training.masked_words import MaskedWordHead, masked_positions
from trueneg.training.pair_training import PairTraining, share_of_negatives
from trueneg.training.text_inputs import text_inputs


class Inputs(NamedTuple):
    """What a process encodes of a batch: images, their augmentation parameters, inputs of the text
    encoder, and their lengths.
    """

    images: Tensor
    parameters: Tensor
    tokens: dict[str, Any]
    lengths: Tensor


class ImageText(PairTraining):
    """Training on image–sentence pairs.

    Raises:
        UserError: if a patient is in two splits, or if the settings do not match the source; also
            see :class:`PairTraining`.
    """

    masked: MaskedWordHead  # of objectives that mask words
    read_source, read_subsets = staticmethod(read_pairs), staticmethod(read_subsets)
    false_negatives = staticmethod(of_pairs)

    def set_up(self, settings: Settings, source: PairSource, subset: Subset) -> int:
        refuse_leakage(source, subset)
        objective, similarity, vectors = (
            settings["objective"],
            settings["similarity"],
            self.frozen.vectors,
        )
        if vectors is not None and similarity["aggregation"] == "global":
            vectors = vectors[..., :1]  # regions are needed for evaluation only
        self.data = PairData(source, subset, self.device, vectors)
        statistics = (
            ([], []) if normalises(settings) else statistics_of(source.images, subset.train)
        )
        channels = source.images.shape[1]
        self.networks = build_networks(
            settings, self.data.sentences, channels, statistics, self.frozen
        )
        self.model, self.augmentation = (
            self.networks.model.to(self.device),
            self.networks.augmentation.to(self.device),
        )
        network = nn.ModuleDict({"model": self.model})
        self.masked_words_weight, self.mask_share = (
            objective.get(key) for key in ("masked_words_weight", "mask_share")
        )
        # drawn last, so all objectives of a seed share the other weights
        if self.mask_share is not None:
            config = self.model.text_encoder.bert.config
            self.masked = network["masked"] = MaskedWordHead(
                config.hidden_size, config.vocab_size
            ).to(self.device)
        self.tokens = text_inputs(
            self.networks,
            self.data.texts,
            settings["text_encoder"].get("truncate", True),
            self.device,
        )
        self.set_up_objective(settings, network)
        return self.data.units(settings["training"]["unit"])

    def batches(self, count: int) -> Generator[tuple[PairIndices, Inputs], None, None]:
        """Yield the pairs of each whole batch and this process's share of their images and
        sentences.
        """
        size = self.batch_size
        drawn = self.data.epoch(self.training["unit"], self.generator("pairs"))
        texts = self.data.text_numbers[drawn.sentences]
        pairs = PairIndices(*(values.to(self.device) for values in drawn))
        draws = self.augmentation.draw(
            count * size, self.data.images.size, self.generator("augmentation")
        ).to(self.device)
        whole = [pairs.part(slice(start, start + size)) for start in range(0, count * size, size)]
        self.shares = {
            "share of own report": share_of_negatives(
                self.data.of_own_report(batch.images) for batch in whole
            ),
            "share of same text": share_of_negatives(map(self.data.same_text, whole)),
        }
        remaining = drawn.images[self.update * size : count * size].split(size)
        numbers = torch.cat([self.processes.part(batch) for batch in remaining])
        with contextlib.closing(
            self.data.images.batches(numbers, size // self.processes.count)
        ) as loaded:
            for update, images in zip(range(self.update, count), loaded, strict=True):
                batch = slice(update * size, (update + 1) * size)
                parameters, numbers = (self.processes.part(each[batch]) for each in (draws, texts))
                yield (
                    pairs.part(batch),
                    Inputs(
                        images, parameters, self.tokens.batch(numbers), self.tokens.lengths[numbers]
                    ),
                )

    def measured(self) -> dict[str, float]:
        """Return the logit scale, the shares of known kinds of negatives, and any threshold.

        The shares are measured before any are left out (``own_report``, ``same_text``).
        """
        of_guide = {} if self.guide is None else self.guide.measured()
        measured = {"logit_scale": self.model.logit_scale().item()}
        return {**measured, **{key: share.item() for key, share in self.shares.items()}, **of_guide}

    def weights(self) -> dict[str, Tensor]:
        """Return the tensors, on the CPU, that
        :func:`trueneg.training.image_text_networks.read_networks` restores.
        """
        return finished_tensors(self.networks)

    def _embed(self, inputs: Inputs, model: Any) -> tuple[Tensor, ImageEmbeddings]:
        self.seed_dropout()
        images = self.augmentation(inputs.images, inputs.parameters)
        with autocast(self.device):
            pooled, regions = model.embed_images(
                images.contiguous(memory_format=torch.channels_last)
            )
            texts = model.embed_texts(**inputs.tokens)
        texts, pooled = (self.processes.whole(part.float()) for part in (texts, pooled))
        return texts, ImageEmbeddings(
            pooled, None if regions is None else self.processes.whole(regions.float())
        )

    def _backward_masked_words(self, inputs: Inputs) -> Tensor:
        if self.mask_share is None:
            return super()._backward_masked_words(inputs)
        # One draw per position of the longest sentence overall, so the result does not depend on
        # the batch's padding.
        longest = int(self.tokens.lengths.max())
        draws = torch.rand(
            self.batch_size, longest, generator=self.generator(f"masked words/{self.update}")
        )
        # Selected on the CPU: their number determines the shapes below, and reading it from a GPU
        # would wait for all queued work.
        mask = masked_positions(self.processes.part(draws), inputs.lengths, self.mask_share)
        places = mask.flatten().nonzero()[:, 0].to(self.device, non_blocking=True)
        count = self.processes.sum(torch.full((), len(places), device=self.device)).clamp(min=1)
        bert, mask_id = self.model.text_encoder.bert, self.networks.tokenizer.mask_token_id
        with autocast(self.device):
            loss = (
                self.masked_words_weight * self.masked(bert, inputs.tokens, places, mask_id) / count
            )
        (self.processes.count * loss).backward()  # gradients are averaged over processes
        return self.processes.sum(loss.detach())


class ReleasedNetworks:
    """A run that evaluates networks without training. The engine treats it as image–text training
    with zero epochs.

    Args:
        settings: see :class:`ImageText`; ``objective.name`` is ``released`` or ``untrained``.
        seed: the study's seed; weights that are not loaded equal the initial weights of a training
            run with this seed.
        source: images used for evaluation.
        subset: subset of the source; its training split defines the vocabulary of a new text
            encoder and, unless the image encoder has its own, the normalisation of images.
        device, processes: not used.
        frozen: stored vectors of the frozen towers.

    Raises:
        UserError: if the weights cannot be loaded, or a patient is in two splits.
    """

    epochs = epoch = update = updates = batch_size = 0
    finished_tensors: Any = staticmethod(finished_tensors)

    def __init__(
        self,
        settings: Settings,
        seed: int,
        source: Any,
        subset: Any,
        device: Any = None,
        processes: Any = None,
        frozen: Frozen = NOTHING_FROZEN,
    ):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for(seed, "weights"))
            self._networks = self.build(settings, source, subset, frozen)

    @staticmethod
    def build(settings: Settings, source: Any, subset: Any, frozen: Frozen) -> Any:
        """Build the networks, after a check of the subset."""
        refuse_leakage(source, subset)
        statistics = (
            ([], []) if normalises(settings) else statistics_of(source.images, subset.train)
        )
        sentences = PairData(source, subset, torch.device("cpu")).sentences
        return build_networks(settings, sentences, source.images.shape[1], statistics, frozen)

    def weights(self) -> dict[str, Tensor]:
        """Return the tensors of a finished run's file."""
        return self.finished_tensors(self._networks)
