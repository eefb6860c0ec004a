"""Image–text training with any of the objectives: an image and a sentence of its report are positives of each other."""

import contextlib
import functools
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.data.pairs.pair_source import PairSource, read_pairs
from trueneg.data.pairs.pair_splits import PairSubset, read_pair_subsets, refuse_leakage
from trueneg.models.region_similarity import ImageEmbeddings
from trueneg.randomness import seed_for
from trueneg.training.cached_gradients import backward_in_chunks
from trueneg.training.image_loading import statistics_of
from trueneg.training.image_text_networks import build_networks, finished_tensors
from trueneg.training.image_text_objectives import ImageTextObjective, data_checksum
from trueneg.training.loop import Settings, Training
from trueneg.training.masked_words import MaskedWordHead, masked_positions, masked_word_loss
from trueneg.training.monitors import PairMonitors
from trueneg.training.pair_data import PairData, Pairs
from trueneg.training.sentence_tokens import SentenceTokens

OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


class Chunk(NamedTuple):
    """A chunk of a batch: its images, the draws of their augmentation, and its sentences' tokens."""

    images: Tensor
    parameters: Tensor
    tokens: dict[str, Tensor]


class StepTerms(NamedTuple):
    """A step's loss, the share of each pair's anchors at the bound, and the similarity of each pair; (), (B,), (B,)."""

    loss: Tensor
    at_bound: Tensor
    positive: Tensor


class ImageText(Training):
    """Training on pairs of an image and a sentence.

    Raises:
        UserError: also if a patient is in two splits, or settings and source do not fit.
    """

    SAMPLES, PER_PICK = "pairs", 1
    remedy = "raise training.warmup_updates"
    STATE = (*Training.STATE, "waited")
    read_source, read_subsets = staticmethod(read_pairs), staticmethod(read_pair_subsets)
    data_checksum = staticmethod(data_checksum)

    def prepare_data(self, source: PairSource, subset: PairSubset) -> tuple[int, str]:
        refuse_leakage(source, subset)
        self.data = PairData(source, subset, self.device)
        count, unit = self.data.units(self.training["unit"]), self.training["unit"]
        return count, f"an epoch of seed {self.seed} has {count} pairs (training.unit: {unit})"

    def set_up(self, settings: Settings, source: PairSource, subset: PairSubset) -> None:
        training, objective, similarity = settings["training"], dict(settings["objective"]), dict(settings["similarity"])
        similarity["logit_scale"] = objective.pop("logit_scale", None) or similarity["logit_scale"]
        self.chunks = training["chunks"]
        self.waited = 0.0  # seconds of the unfinished epoch in which no image was there
        statistics = statistics_of(source.images, subset.train)
        channels, settings = source.images.shape[1], {**settings, "similarity": similarity}
        self.networks = build_networks(settings, self.data.sentences, channels, statistics)
        self.model, self.augmentation = self.networks.model.to(self.device), self.networks.augmentation.to(self.device)
        self.network, self.masked = nn.ModuleDict({"model": self.model}), None
        if objective["name"] == "biovil":  # drawn last: all objectives of a seed share the other weights
            text_encoder = self.model.text_encoder
            self.masked = MaskedWordHead(text_encoder.dimensions, text_encoder.bert.config.vocab_size).to(self.device)
            self.network["masked"] = self.masked
        truncate, texts = settings["text_encoder"]["truncate"], self.data.texts
        self.tokens = SentenceTokens(self.networks.tokenizer, texts, self.networks.maximum_tokens, truncate, self.device)
        self.masked_settings = {key: objective.pop(key) for key in ("masked_words_weight", "mask_share") if key in objective}
        features = self._text_features() if objective.get("by") == "text" else None
        self.objective = ImageTextObjective(objective, source, self.data, similarity["aggregation"], features)
        self.each_part = similarity["combined"] == "losses"
        self.optimizer = _optimizer(self.network, training)
        self.monitors = PairMonitors(self.data.groups)

    def batches(self, count: int) -> Generator[tuple[Pairs, list[Chunk]], None, None]:
        """The pairs of a whole batch, and this process's chunks of it."""
        size, own_size = self.batch_size, self.batch_size // self.processes.count
        edges = [own_size * chunk // self.chunks for chunk in range(1, self.chunks)]
        drawn = self.data.epoch(self.training["unit"], self.generator("pairs"))
        numbers = self.data.text_numbers[drawn.sentences]
        pairs = Pairs(*(values.to(self.device) for values in drawn))
        draws = self.augmentation.draw(count * size, self.data.images.size, self.generator("augmentation")).to(self.device)
        missing = drawn.images[self.update * size : count * size].split(size)
        own = torch.cat([self.processes.part(batch, self.chunks) for batch in missing])
        with contextlib.closing(self.data.images.batches(own, own_size)) as loaded:
            for update, (images, waited) in zip(range(self.update, count), loaded, strict=True):
                self.waited += waited
                batch = slice(update * size, (update + 1) * size)
                whole = pairs.part(batch)
                parts = (self.processes.part(each, self.chunks) for each in (draws[batch], numbers[batch], whole.sentences))
                split = zip(*(part.tensor_split(edges) for part in (images, *parts)), strict=True)
                chunks = [
                    Chunk(pixels, own_draws, self.tokens.batch(texts, self.data.text_of[sentences]))
                    for pixels, own_draws, texts, sentences in split
                ]
                yield whole, chunks

    def backward(self, pairs: Pairs, chunks: Sequence[Chunk]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        # Dropout and resampling know no generator but torch's own, which a step leaves as it was.
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            terms = backward_in_chunks(self.model, self._embed, chunks, functools.partial(self._terms, pairs))
            masked = self._backward_masked_words(chunks)
        return terms.loss.detach(), masked, terms.at_bound, terms.positive, pairs.sentences

    def measured(self, seconds: float) -> dict[str, float]:
        """The logit scale, and the share of the seconds in which no image was there to go on with; 0 where all are resident."""
        waiting, self.waited = self.waited / seconds, 0.0
        return {"logit_scale": self.model.logit_scale().item(), "waiting": waiting}

    def weights(self) -> dict[str, Tensor]:
        """What :func:`trueneg.training.image_text_networks.read_networks` makes the networks of again, on the CPU."""
        return finished_tensors(self.networks)

    def _embed(self, number: int, chunk: Chunk) -> tuple[Tensor, Tensor, Tensor | None]:
        """Texts (b, D), pooled images (b, D) and, where the similarity needs them, regions (b, D, h, w)."""
        # Every process drops others; the first one what it would alone.
        own = f"{number}/process {self.processes.rank}" if self.processes.rank else number
        torch.manual_seed(seed_for(self.seed, f"dropout/{self.epoch}/{self.update}/{own}"))
        images = self.augmentation(chunk.images, chunk.parameters)
        with self._autocast():
            embedded = self.model.embed_images(images.contiguous(memory_format=torch.channels_last))
            texts = self.model.embed_texts(**chunk.tokens)
        return texts.float(), embedded.pooled.float(), None if embedded.regions is None else embedded.regions.float()

    def _terms(self, pairs: Pairs, texts: Tensor, pooled: Tensor, regions: Tensor | None) -> StepTerms:
        texts, pooled = (self.processes.whole(part, self.chunks) for part in (texts, pooled))
        regions = None if regions is None else self.processes.whole(regions, self.chunks)
        torch.manual_seed(seed_for(self.seed, f"objective/{self.epoch}/{self.update}"))
        parts = list(self.model.region_similarity.parts(texts, ImageEmbeddings(pooled, regions)).values())
        scores = torch.stack(parts).mean(0)
        positive = scores.detach().diagonal()
        if self.objective.on_embeddings:
            return StepTerms(*self.objective.of_embeddings(texts, pooled), positive)
        scale = self.model.logit_scale()
        several = [self.objective.of_similarities(part, scale, pairs) for part in (parts if self.each_part else [scores])]
        loss, at_bound = (torch.stack(values).mean(0) for values in zip(*several, strict=True))
        return StepTerms(loss, at_bound, positive)

    def _backward_masked_words(self, chunks: Sequence[Chunk]) -> Tensor:
        """Add the gradients of the masked words, chunk by chunk; their loss, as it enters the whole."""
        total = torch.zeros((), device=self.device)
        if self.masked is None:
            return total
        weight, share = self.masked_settings["masked_words_weight"], self.masked_settings["mask_share"]
        # A draw for every place of the longest sentence of all: chunks, and how far they are padded, do not matter.
        every_place = torch.rand(
            self.batch_size, self.tokens.longest, generator=self.generator(f"masked words/{self.update}")
        ).to(self.device)
        widths = [chunk.tokens["input_ids"].shape for chunk in chunks]
        parts = self.processes.part(every_place, self.chunks).split([count for count, _ in widths])
        draws = [own[:, :width] for own, (_, width) in zip(parts, widths, strict=True)]
        masks = [masked_positions(own, chunk.tokens["attention_mask"], share) for own, chunk in zip(draws, chunks, strict=True)]
        count = self.processes.sum(torch.stack([mask.sum() for mask in masks]).sum()).clamp(min=1)
        for chunk, mask in zip(chunks, masks, strict=True):
            with self._autocast():
                bert, mask_id = self.model.text_encoder.bert, self.networks.tokenizer.mask_token_id
                loss = weight * masked_word_loss(bert, self.masked, chunk.tokens, mask, mask_id) / count
            (self.processes.count * loss).backward()  # of which the mean over the processes is taken
            total += loss.detach()
        return self.processes.sum(total)

    @torch.no_grad()
    def _text_features(self) -> Tensor:
        """(U, H) the different sentences under the text encoder as it is now, of length 1."""
        self.model.eval()
        encoded = []
        for numbers in torch.arange(len(self.data.texts)).split(512):
            with self._autocast():
                encoded.append(self.model.text_encoder(**self.tokens.batch(numbers, numbers.to(self.device))).float())
        return functional.normalize(torch.cat(encoded), dim=1)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")


def _optimizer(network: nn.Module, training: Mapping[str, Any]) -> torch.optim.Optimizer:
    """Without decay of biases, norms and the logit scale: decay would pull the scale to 1."""
    learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in learned if one.ndim > 1], "weight_decay": training["weight_decay"]},
        {"params": [one for one in learned if one.ndim <= 1], "weight_decay": 0.0},
    ]
    return OPTIMIZERS[training["optimizer"]](groups, lr=training["learning_rate"], fused=True)
