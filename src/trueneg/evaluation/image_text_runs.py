"""The image–text protocol on a block of runs."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from trueneg.data.pairs.chexpert_8x200 import read_benchmark
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.pair_splits import read_pair_subsets
from trueneg.evaluation.chexpert_8x200 import chexpert_8x200_rows
from trueneg.evaluation.image_text import image_text_rows
from trueneg.store.records import read_rows
from trueneg.store.run_store import RunStore
from trueneg.training.image_text_networks import read_networks

log = logging.getLogger(__name__)


def pair_rows(
    listed: Sequence[Mapping[str, Any]],
    store: RunStore,
    data: Mapping[str, str | Path | None],
    settings: Mapping[str, Any],
    device: torch.device,
) -> Iterator[dict[str, Any]]:
    """Rows of the networks of some image–text runs.

    Args:
        listed: the manifest's runs.
        store: that holds them.
        data: ``source`` (images and sentences, npz with its parquet file beside it), ``subsets`` (parquet), ``boxes`` (parquet;
            without rows nothing is grounded) and ``benchmark`` (CheXpert 8×200, npz; None: it is not measured).
        settings: as for :func:`~trueneg.evaluation.image_text.image_text_rows`.
        device: where to compute.
    """
    pairs, by_seed, boxes = read_pairs(data["source"]), read_pair_subsets(data["subsets"]), read_rows(data["boxes"])
    benchmark = None if data["benchmark"] is None else read_benchmark(data["benchmark"])
    for run in listed:
        networks = read_networks(run["model"], store.record(run["id"])["settings"])
        known = None if boxes.empty else boxes
        found = image_text_rows(networks, pairs, by_seed[run["seed"]], settings, device=device, boxes=known)
        if benchmark is not None:
            found += chexpert_8x200_rows(networks, benchmark, device=device, ks=settings["chexpert_8x200"]["ks"])
        yield from ({"seed": run["seed"], "run": run["id"], **row} for row in found)
        log.info("seed %d: %d measurements", run["seed"], len(found))
