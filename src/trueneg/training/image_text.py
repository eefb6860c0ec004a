"""Image–text training with any of the objectives: an image and a sentence of its report are positives of each other."""

import contextlib
import functools
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.compute.distributed import ALONE, Processes, synchronise_norms
from trueneg.compute.parts import by_part, load_moments, moments_of, named_tensors
from trueneg.data.pairs.pair_source import PairSource
from trueneg.data.pairs.pair_splits import PairSubset, refuse_leakage
from trueneg.errors import UserError
from trueneg.models.region_similarity import ImageEmbeddings
from trueneg.randomness import seed_for
from trueneg.training.cached_gradients import backward_in_chunks
from trueneg.training.image_text_networks import build_networks, finished_tensors
from trueneg.training.image_text_objectives import ImageTextObjective
from trueneg.training.masked_words import MaskedWordHead, masked_positions, masked_word_loss
from trueneg.training.pair_data import PairData, Pairs, channel_statistics
from trueneg.training.pair_monitors import PairMonitors
from trueneg.training.schedules import learning_rate_factor
from trueneg.training.sentence_tokens import SentenceTokens

OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


class Batch(NamedTuple):
    """A chunk of a batch: its images, the draws of their augmentation, and its sentences' tokens."""

    images: Tensor
    parameters: Tensor
    tokens: dict[str, Tensor]


class StepTerms(NamedTuple):
    """A step's loss, the share of each pair's anchors at the bound, and the similarity of each pair; (), (B,), (B,)."""

    loss: Tensor
    at_bound: Tensor
    positive: Tensor


class ImageText:
    """One run: its networks, its optimiser, its data, and where it stands.

    Every draw of an epoch (pairs, crops, dropout, masks) comes from a generator keyed by seed, purpose and epoch (and update), so
    all objectives of a seed see the same pairs, and a run continues from any update without generator states.

    Args:
        settings: resolved settings by section: encoder, text_encoder, projection, similarity, augmentation, training, objective.
        seed: the study's seed.
        source: all images and sentences.
        subset: which of them to train on.
        device: where to compute.
        processes: that share the run, each with a device.

    Raises:
        UserError: if there are fewer pairs than a batch holds, a patient is in two splits, or settings and source do not fit.
    """

    def __init__(
        self,
        settings: Mapping[str, Mapping[str, Any]],
        seed: int,
        source: PairSource,
        subset: PairSubset,
        device: torch.device,
        processes: Processes = ALONE,
    ):
        refuse_leakage(source, subset)
        self.seed, self.device, self.training, self.processes = seed, device, settings["training"], processes
        objective, similarity = dict(settings["objective"]), dict(settings["similarity"])
        self.name = objective["name"]
        similarity["logit_scale"] = objective.pop("logit_scale", None) or similarity["logit_scale"]
        settings = {**settings, "similarity": similarity}
        self.data = PairData(source, subset, device)
        self.batch_size, self.chunks = self.training["batch_size"], self.training["chunks"]
        self.updates_per_epoch = self.data.units(self.training["unit"]) // self.batch_size
        if self.updates_per_epoch == 0:
            pairs, unit = self.data.units(self.training["unit"]), self.training["unit"]
            raise UserError(
                f"training.batch_size is {self.batch_size}, but an epoch of seed {seed} has {pairs} pairs "
                f"(training.unit: {unit}); lower it, or add images."
            )
        self.updates = self.training["updates"] or self.training["epochs"] * self.updates_per_epoch
        self.epochs = math.ceil(self.updates / self.updates_per_epoch)
        if self.training["warmup_updates"] >= self.updates:
            raise UserError(
                f"training.warmup_updates is {self.training['warmup_updates']}, but the run has {self.updates} updates; lower it."
            )
        self.epoch = self.update = 0  # finished epochs, and updates done in the one that is not
        self.seconds = self.waited = 0.0  # that the updates of the unfinished epoch took, and waited for their images
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for(seed, "weights"))
            statistics = channel_statistics(source.images, subset.train)
            self.networks = build_networks(settings, self.data.sentences, source.images.shape[1], statistics)
            # Drawn last: all objectives of a seed share the other weights.
            self.masked = _masked_words(objective, self.networks.model.text_encoder)
        self.model, self.augmentation = self.networks.model.to(device), self.networks.augmentation.to(device)
        self.network = nn.ModuleDict({"model": self.model} | ({"masked": self.masked.to(device)} if self.masked else {}))
        if processes.count > 1:
            synchronise_norms(self.network)
        truncate, texts = settings["text_encoder"]["truncate"], self.data.texts
        self.tokens = SentenceTokens(self.networks.tokenizer, texts, self.networks.maximum_tokens, truncate, device)
        self.masked_settings = {key: objective.pop(key) for key in ("masked_words_weight", "mask_share") if key in objective}
        features = self._text_features() if ImageTextObjective.needs_text_features(objective) else None
        self.objective = ImageTextObjective(objective, source, self.data, similarity["aggregation"], features)
        self.each_part = similarity["combined"] == "losses"
        self.optimizer = _optimizer(self.network, self.training)
        self.monitors = PairMonitors(self.data.groups)

    def train_epoch(self, after_update: Callable[[], None] | None = None) -> dict[str, float]:
        """Train one epoch, or the rest of an interrupted one (the last may be cut short by ``updates``).

        Args:
            after_update: called after every update, when :meth:`state` may be taken.

        Returns:
            Loss and monitors, logit scale, learning rate, seconds, pairs per second, and ``waiting``: the share of the seconds
            in which no image was there to go on with; 0 where all lie on the device.

        Raises:
            UserError: if the loss stops being a number.
        """
        began = time.perf_counter() - self.seconds
        self.network.train()
        count = min(self.updates_per_epoch, self.updates - self.epoch * self.updates_per_epoch)
        drawn = self.data.epoch(self.training["unit"], self._generator("pairs"))
        numbers = self.data.text_numbers[drawn.sentences]
        pairs = Pairs(*(values.to(self.device) for values in drawn))
        drawn_images, size = count * self.batch_size, self.data.images.size
        parameters = self.augmentation.draw(drawn_images, size, self._generator("augmentation")).to(self.device)
        missing = drawn.images[self.update * self.batch_size : drawn_images].split(self.batch_size)
        own = torch.cat([self.processes.part(batch, self.chunks) for batch in missing])
        with contextlib.closing(self.data.images.batches(own, self.batch_size // self.processes.count)) as batches:
            for update, (images, waited) in zip(range(self.update, count), batches, strict=True):
                self._set_learning_rate(self.epoch * self.updates_per_epoch + update)
                self._step(update, images, pairs, parameters, numbers)
                self.update, self.seconds, self.waited = update + 1, time.perf_counter() - began, self.waited + waited
                if after_update is not None:
                    after_update()
        row = self.monitors.read()
        seconds, waiting = time.perf_counter() - began, self.waited
        self.epoch, self.update, self.seconds, self.waited = self.epoch + 1, 0, 0.0, 0.0
        if not math.isfinite(row["loss"]):
            raise UserError(self._diverged(row["loss"], count))
        return {
            **row,
            "logit_scale": self.model.logit_scale().item(),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "seconds": seconds,
            "pairs_per_second": count * self.batch_size / seconds,
            "waiting": waiting / seconds,
        }

    def weights(self) -> dict[str, Tensor]:
        """What :func:`trueneg.training.image_text_networks.read_networks` makes the networks of again, on the CPU."""
        return finished_tensors(self.networks)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Where the run stands: tensors (on the CPU, contiguous) and plain values; between two updates or two epochs."""
        tensors = named_tensors(
            network=self.network.state_dict(), optimizer=moments_of(self.optimizer), monitors=self.monitors.state_dict()
        )
        rate = self.optimizer.param_groups[0]["lr"]
        values = {
            "epoch": self.epoch,
            "update": self.update,
            "seconds": self.seconds,
            "waited": self.waited,
            "learning_rate": rate,
        }
        return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, values

    def load_state(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Continue from :meth:`state`, in a run that was made with the same arguments."""
        network, moments, monitors = by_part(tensors, "network", "optimizer", "monitors")
        self.network.load_state_dict(network)
        self.monitors.load_state_dict(monitors)
        load_moments(self.optimizer, moments, values["learning_rate"])
        self.epoch, self.update = values["epoch"], values["update"]
        self.seconds, self.waited = values["seconds"], values["waited"]

    def _step(self, update: int, images: Tensor, pairs: Pairs, parameters: Tensor, numbers: Tensor) -> None:
        batch = slice(update * self.batch_size, (update + 1) * self.batch_size)
        whole = pairs.part(batch)
        numbers, sentences, parameters = (
            self.processes.part(values, self.chunks) for values in (numbers[batch], whole.sentences, parameters[batch])
        )
        edges = [len(images) * chunk // self.chunks for chunk in range(self.chunks + 1)]
        chunks = []
        for first, last in itertools.pairwise(edges):
            tokens = self.tokens.batch(numbers[first:last], self.data.text_of[sentences[first:last]])
            chunks.append(Batch(images[first:last], parameters[first:last], tokens))
        self.optimizer.zero_grad(set_to_none=True)
        with self._randomness():
            terms = backward_in_chunks(self.model, self._embed, chunks, functools.partial(self._terms, whole))
            masked = self._backward_masked_words(chunks)
        self.processes.average_gradients(self.network.parameters())
        self.optimizer.step()
        self.monitors.add(terms.loss.detach(), masked, terms.at_bound, terms.positive, whole.sentences)

    def _embed(self, number: int, chunk: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
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

    def _backward_masked_words(self, chunks: Sequence[Batch]) -> Tensor:
        """Add the gradients of the masked words, chunk by chunk; their loss, as it enters the whole."""
        total = torch.zeros((), device=self.device)
        if self.masked is None:
            return total
        weight, share = self.masked_settings["masked_words_weight"], self.masked_settings["mask_share"]
        # A draw for every place of the longest sentence of all: chunks, and how far they are padded, do not matter.
        every_place = torch.rand(
            self.batch_size, self.tokens.longest, generator=self._generator(f"masked words/{self.update}")
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

    def _generator(self, purpose: str) -> torch.Generator:
        return torch.Generator().manual_seed(seed_for(self.seed, f"{purpose}/{self.epoch}"))

    def _randomness(self) -> contextlib.AbstractContextManager:
        """Dropout and resampling know no generator but torch's own, which a step leaves as it was."""
        return torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else [])

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def _set_learning_rate(self, done: int) -> None:
        warmup = self.training["warmup_updates"]
        if done < warmup:
            factor = (done + 1) / warmup
        else:
            factor = learning_rate_factor(self.training["schedule"], (done - warmup) / (self.updates - warmup))
        for group in self.optimizer.param_groups:
            group["lr"] = self.training["learning_rate"] * factor

    def _diverged(self, loss: float, count: int) -> str:
        first = (self.epoch - 1) * self.updates_per_epoch
        return (
            f"The loss became {loss} in epoch {self.epoch} of {self.epochs} (updates {first + 1} to {first + count} of "
            f"{self.updates}, objective {self.name}, seed {self.seed}). The likely cause is a step too "
            f"large: training.learning_rate is {self.training['learning_rate']:g}; lower it, or raise training.warmup_updates."
        )


def _masked_words(objective: Mapping[str, Any], text_encoder: nn.Module) -> MaskedWordHead | None:
    if objective["name"] != "biovil":
        return None
    return MaskedWordHead(text_encoder.dimensions, text_encoder.bert.config.vocab_size)


def _optimizer(network: nn.Module, training: Mapping[str, Any]) -> torch.optim.Optimizer:
    """Without decay of biases, norms and the logit scale: decay would pull the scale to 1."""
    learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in learned if one.ndim > 1], "weight_decay": training["weight_decay"]},
        {"params": [one for one in learned if one.ndim <= 1], "weight_decay": 0.0},
    ]
    return OPTIMIZERS[training["optimizer"]](groups, lr=training["learning_rate"], fused=True)
