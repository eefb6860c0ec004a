"""Embed sentences with a language model."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from trueneg.errors import UserError
from trueneg.text.loading import load_language_model, longest_input, weights_checksum

BATCH = 256  # number of sentences of similar length that are embedded together


@torch.no_grad()
def sentence_embeddings(
    sentences: Sequence[str], model: Mapping[str, Any], device: torch.device
) -> Tensor:
    """Embed each sentence as the mean of the last hidden layer over its tokens, including special
    tokens.

    Args:
        sentences: U sentences; those longer than the model's limit are truncated.
        model: ``folder`` (or hub name), ``revision`` and ``checksum`` of a masked language model.
        device: device to compute on.

    Returns:
        float32 (U, H), on the CPU.

    Raises:
        UserError: if the model is missing or has a different checksum.
    """
    if weights_checksum(model) != model["checksum"]:
        raise UserError(
            f"{model['folder']}: the weights are missing, or have changed since the images were"
            " joined with the sentences. Restore them, or rerun the join with `snakemake"
            " --forcerun pairs`."
        )
    network, tokenizer = load_language_model(model["folder"], revision=model["revision"])
    network = network.base_model.to(device)
    limit = longest_input(network, tokenizer)
    embedded = torch.empty(len(sentences), network.config.hidden_size)
    for chosen in (
        torch.tensor([len(sentence) for sentence in sentences]).argsort(stable=True).split(BATCH)
    ):
        texts = [sentences[number] for number in chosen.tolist()]
        tokens = tokenizer(
            texts, truncation=True, max_length=limit, padding=True, return_tensors="pt"
        ).to(device)
        hidden = network(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
        ).last_hidden_state
        mask = tokens["attention_mask"][..., None]
        embedded[chosen] = ((hidden * mask).sum(1) / mask.sum(1)).cpu()
    return embedded
