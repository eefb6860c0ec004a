"""Compute the likelihood of every sentence of a corpus; results are saved continuously, so a killed
job loses only seconds.
"""

import functools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from pandas import DataFrame, Series

from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.runtime.devices import leased_device
from trueneg.specs.sections import Section
from trueneg.specs.stages import VERSIONS
from trueneg.store.language_models import read_language_models
from trueneg.store.run_files import checksum_of
from trueneg.text.chunks import add_missing, cached, text_key
from trueneg.text.folds import with_folds
from trueneg.text.loading import load_language_model, longest_input, weights_checksum
from trueneg.text.pseudo_likelihood import score
from trueneg.text.tokenizing import unexpressed

log = logging.getLogger(__name__)

SCORES = ["log_likelihood", "tokens", "windows", "device"]


def score_sentences(
    sentences: str | Path,
    *,
    models: str | Path,
    settings: Section,
    cache: str | Path,
    likelihoods: str | Path,
    shard: int = 0,
    shards: int = 1,
) -> None:
    """Score each unique sentence with the model of each fold that it occurs in.

    Args:
        sentences: table written by :func:`trueneg.text.sentences.split_reports`.
        models: manifest written by :func:`trueneg.text.language_models.train_language_models`.
        settings: ``variant``, ``tokens_per_batch``, ``device``, ``threads``, ``trust_remote_code``.
        cache: folder of all earlier scores, by model and variant; cached sentences are not scored
            again.
        likelihoods: parquet file to write, with the rows of `sentences` and the columns ``fold``,
            ``log_likelihood`` (in nats), ``tokens``, ``windows`` (more than 1 if the sentence
            exceeds the model's limit) and ``device`` (a GPU computes in bfloat16, so its values
            differ in the third digit). Not written if `shards` > 1.
        shard: index of the shard of the sentences that this job scores.
        shards: number of jobs that share the work, one per GPU; a final call with ``shards=1``
            collects their results.

    Raises:
        UserError: if the sentences, a model or a file of cached scores is missing or damaged, or a
            sentence cannot be scored; the message gives its row in the table.
    """
    table, restricted = privacy.read_table(sentences)
    listed = read_language_models(models)
    table = with_folds(table, listed["folds"], listed["seed"])
    torch.set_num_threads(settings["threads"])
    hidden = restricted or listed["restricted"]
    version = f"-version-{VERSIONS['likelihoods']}" * (VERSIONS["likelihoods"] > 1)
    shard_of = {
        text: int.from_bytes(text_key(text)[:4], "big") % shards
        for text in table["sentence"].unique()
    }
    shard_rows = table[table["sentence"].map(shard_of) == shard]
    parts = []
    for model in listed["models"]:
        folder = Path(cache, f"{_identity(model)[:16]}-{settings['variant']}{version}")
        compute = functools.partial(_score, model=model, settings=settings, table=table)
        texts = shard_rows.loc[shard_rows["fold"] == model["fold"], "sentence"]
        if shards == 1:
            parts.append(cached(folder, texts, SCORES, compute, hidden))
        else:
            add_missing(folder, texts, compute, hidden)
    if shards == 1:
        privacy.write_table(table.join(pd.concat(parts)), likelihoods, restricted)


def _identity(model: Mapping[str, Any]) -> str:
    """Return a checksum of what decides a model's scores: of a local folder used as released, also
    of its tokenizer.
    """
    folder = Path(model["folder"])
    if model["checksum"] is None and folder.is_dir():
        return checksum_of(folder)
    return model["checksum"] or weights_checksum(model)


def _score(
    sentences: Sequence[str], model: Mapping[str, Any], settings: Section, table: DataFrame
) -> Iterator[DataFrame]:
    """Score sentences and yield the results in parts; `table` has the sentences' rows."""
    began = time.monotonic()
    tokens = 0
    variant = settings["variant"]
    with leased_device(settings["device"]) as device:
        network, tokenizer = load_language_model(
            model["folder"],
            variant=variant,
            revision=model["revision"],
            trust_remote_code=settings["trust_remote_code"],
        )
        if problem := unexpressed(sentences, tokenizer, longest_input(network, tokenizer)):
            log.warning(f"fold {model['fold']}: {problem}")
        distinct = table["sentence"].reset_index(drop=True).drop_duplicates()
        first = Series(distinct.index, index=distinct.to_numpy())
        parts = score(
            network.to(device),
            tokenizer,
            sentences,
            settings["tokens_per_batch"],
            device,
            variant,
            first.loc[list(sentences)].to_numpy(),
        )
        try:
            for part in parts:
                scored = [sentences[row] for row in part.index]
                yield part.assign(device=device.type).set_axis(scored)
                tokens += int(part["tokens"].sum())
        except ValueError as error:
            raise UserError(f"{model['folder']} cannot score all texts: {error}") from error
    seconds = time.monotonic() - began
    log.info(
        f"fold {model['fold']}: {tokens:,} tokens in {seconds:.1f} s, {tokens / seconds:,.0f}"
        " tokens/s",
    )
