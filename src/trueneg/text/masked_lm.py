"""Train a masked language model on sentences, from scratch or from a pretrained model.

Every random draw (order, masks, dropout) comes from a generator keyed by seed, purpose, epoch and
update, so an interrupted training run resumes from its checkpoint and gives the same result
(bit-identical on a CPU).
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from trueneg.errors import UserError
from trueneg.randomness import rng_for, seed_for
from trueneg.runtime.parts import load_moments, moments_of, named_tensors, part_of
from trueneg.specs.sections import Section
from trueneg.text.loading import longest_input
from trueneg.text.pseudo_likelihood import score
from trueneg.text.scorers import logits_at
from trueneg.text.tokenizing import LITERALLY, train_tokenizer

Parts = tuple[Sequence[str], Sequence[str]]  # training and validation sentences
POOL = 20  # number of batches whose sentences are sorted by length together, to reduce padding


def new_masked_lm(sentences: Sequence[str], settings: Section, seed: int) -> tuple[Any, Any]:
    """Create a small BERT with random weights, and a tokenizer trained on the sentences.

    Args:
        sentences: sentences to build the vocabulary from.
        settings: ``vocabulary``, ``hidden``, ``layers``, ``heads``, ``longest``.
        seed: seed of the weights.

    Raises:
        UserError: if the vocabulary is too small for the sentences' characters.
    """
    from transformers import BertConfig, BertForMaskedLM

    try:
        tokenizer = train_tokenizer(sentences, settings["vocabulary"], settings["longest"])
    except ValueError as error:
        raise UserError(f"language_models: {error}") from error
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings["hidden"],
        num_hidden_layers=settings["layers"],
        num_attention_heads=settings["heads"],
        intermediate_size=4 * settings["hidden"],
        max_position_embeddings=settings["longest"],
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(seed_for(seed, "weights"))
    return BertForMaskedLM(config), tokenizer


class MaskedLMTraining:
    """Trains a masked language model epoch by epoch; its state can be saved and restored between
    updates.

    A fraction of each sentence's tokens, at least one, is replaced by the mask token, and the model
    predicts them. Tokens are never replaced by other words, because scoring uses only masks.
    Repeated sentences are used as often as they occur.

    Args:
        model: a masked language model.
        tokenizer: its tokenizer.
        parts: training sentences, with repetitions, and validation sentences, from other patients.
        settings: ``epochs``, ``patience``, ``batch_size``, ``learning_rate``, ``weight_decay``,
            ``warmup``, ``mask_share``, ``validation_sentences``.
        seed: seed of all random draws.
        device: device to train on.

    Attributes:
        epoch: number of finished epochs.
        update: number of updates done in the current epoch.
        epochs: number of epochs to train; reduced by early stopping when the held-out
            pseudo-perplexity stops improving.
        best: the lowest held-out pseudo-perplexity.
    """

    STATE = ("epoch", "update", "epochs", "best", "_best_epoch", "_loss", "_words")

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        parts: Parts,
        settings: Section,
        seed: int,
        device: torch.device,
    ):
        training, validating = parts
        self.model = model.to(device)
        self.tokenizer = tokenizer
        self.settings = settings
        self.seed = seed
        self.device = device
        self.epoch = self.update = 0
        self.epochs = settings["epochs"]
        self.best = math.inf
        self._best_epoch = 0
        self._loss = 0.0
        self._words = 0
        limit = longest_input(model, tokenizer)
        # Longer sentences are truncated here, but not when scoring. One array, because millions of
        # small ones take more memory.
        encoded = tokenizer(
            training, truncation=True, max_length=limit, return_attention_mask=False, **LITERALLY
        )["input_ids"]
        self._starts = np.concatenate([[0], np.cumsum([len(ids) for ids in encoded])])
        self._ids = np.fromiter(itertools.chain.from_iterable(encoded), np.int32, self._starts[-1])
        generator = rng_for(seed, "language model validation")
        drawn = generator.choice(
            len(validating), min(settings["validation_sentences"], len(validating)), replace=False
        )
        self._validating = np.unique([validating[number] for number in drawn], return_counts=True)
        self.updates = math.ceil(len(training) / settings["batch_size"])
        self._special = torch.tensor(tokenizer.all_special_ids, device=device)
        matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
        others = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
        groups = [
            {"params": matrices, "weight_decay": settings["weight_decay"]},
            {"params": others, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=settings["learning_rate"])
        self._best_weights = _copied(model.state_dict())

    def train_epoch(self, after_update: Callable[[], None]) -> dict[str, float]:
        """Train for one epoch, or the rest of an interrupted one, and compute the held-out
        pseudo-perplexity.

        Args:
            after_update: called without arguments after each update.

        Returns:
            ``loss`` (nats per masked token) and ``pseudo-perplexity`` (held out).

        Raises:
            UserError: if the loss or a weight becomes NaN or infinite.
        """
        self.model.train()
        for chosen in self._order()[self.update :]:
            self._step(chosen)
            self.update += 1
            after_update()
        if not self._words:
            raise UserError(
                f"The language model (seed {self.seed}) knows no word of its training texts;"
                " expected texts in the script of its vocabulary. Choose another model."
            )
        loss = self._loss / self._words
        if not (
            math.isfinite(loss) and all(value.isfinite().all() for value in self.model.parameters())
        ):
            raise UserError(
                f"Training of the language model diverged in epoch {self.epoch + 1} of"
                f" {self.settings['epochs']} (seed {self.seed}): the loss is {loss}, or weights are"
                " NaN or inf. Lower its learning_rate, which is"
                f" {self.settings['learning_rate']:g}, or raise its warmup."
            )
        row = {"loss": loss, "pseudo-perplexity": self.pseudo_perplexity()}
        self.epoch = self.epoch + 1
        self.update = 0
        self._loss = 0.0
        self._words = 0
        if row["pseudo-perplexity"] < self.best:
            self.best = row["pseudo-perplexity"]
            self._best_epoch = self.epoch
            self._best_weights = _copied(self.model.state_dict())
        elif self.epoch - self._best_epoch >= self.settings["patience"]:
            self.epochs = self.epoch
        return row

    def pseudo_perplexity(self) -> float:
        """Compute exp(−Σ PLL / Σ tokens) of the held-out sentences, including repetitions (Salazar
        et al., 2020).
        """
        sentences, counts = self._validating
        total = tokens = 0.0
        for part in score(self.model, self.tokenizer, sentences.tolist(), device=self.device):
            total += (part["log_likelihood"].to_numpy() * counts[part.index]).sum()
            tokens += (part["tokens"].to_numpy() * counts[part.index]).sum()
        # e^710 overflows; beyond e^700 the exact value is irrelevant
        return math.exp(min(-total / tokens, 700.0))

    def finished_model(self) -> Any:
        """Return the model with the weights of its best epoch."""
        self.model.load_state_dict(self._best_weights)
        return self.model.eval()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the training state as tensors and plain values; call between updates or epochs."""
        tensors = named_tensors(
            model=self.model.state_dict(),
            best=self._best_weights,
            optimizer=moments_of(self.optimizer),
        )
        return _copied(tensors), {name: getattr(self, name) for name in self.STATE}

    def load_state(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Resume from the result of :meth:`state`; this object must have been created with the same
        arguments.
        """
        self.model.load_state_dict(part_of(tensors, "model"))
        self._best_weights = part_of(tensors, "best")
        load_moments(self.optimizer, part_of(tensors, "optimizer"))
        for name, value in values.items():
            setattr(self, name, value)

    def _order(self) -> list[ndarray]:
        """Return the batches of this epoch: shuffled, sorted by length within pools, and shuffled
        again.
        """
        generator = rng_for(self.seed, f"language model batches/{self.epoch}")
        lengths = np.diff(self._starts)
        size = self.settings["batch_size"]
        shuffled = generator.permutation(len(lengths))
        pools = np.arange(len(lengths)) // (POOL * size)
        ordered = shuffled[np.lexsort((lengths[shuffled], pools))]
        batches = np.split(ordered, np.arange(size, len(ordered), size))
        return [batches[number] for number in generator.permutation(len(batches))]

    def _step(self, chosen: ndarray) -> None:
        # for dropout, which does not accept a generator
        torch.manual_seed(seed_for(self.seed, f"language model masks/{self.epoch}/{self.update}"))
        texts = [
            torch.from_numpy(self._ids[self._starts[number] : self._starts[number + 1]]).long()
            for number in chosen
        ]
        ids = pad_sequence(texts, batch_first=True, padding_value=self.tokenizer.pad_token_id).to(
            self.device
        )
        words = ~torch.isin(ids, self._special)
        draws = torch.rand(ids.shape).to(self.device).masked_fill(~words, 2.0)
        first = draws == draws.amin(1, keepdim=True)
        # a text of unknown tokens alone has no words
        masked = words & ((draws < self.settings["mask_share"]) | first)
        if not masked.any():
            return
        attention = (ids != self.tokenizer.pad_token_id).long()
        inputs = ids.masked_fill(masked, self.tokenizer.mask_token_id)
        logits = logits_at(self.model, inputs, attention, masked.nonzero(as_tuple=True))
        loss = functional.cross_entropy(logits, ids[masked])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        # Linear warm-up over a fraction of all updates, then linear decay to 0.
        done = (self.epoch * self.updates + self.update + 1) / (
            self.settings["epochs"] * self.updates + 1
        )
        warmup = self.settings["warmup"]
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings["learning_rate"] * (
                done / warmup if done < warmup else (1 - done) / (1 - warmup)
            )
        self.optimizer.step()
        self._loss += loss.item() * len(logits)
        self._words += len(logits)


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors to the CPU; they are cloned because head and embedding can share memory, which
    safetensors does not allow.
    """
    return {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
