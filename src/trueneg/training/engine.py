"""Train the runs of a job: what is finished is taken from the store, what is begun continues, and a manifest lists them."""

import contextlib
import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import save_file
from tqdm import tqdm

from trueneg.datasets.images import ImageSource, read_source
from trueneg.datasets.pair_splits import PairSubset, read_pair_subsets
from trueneg.datasets.pairs import PairSource, read_pairs
from trueneg.datasets.subsets import Subset, read_subsets
from trueneg.errors import UserError
from trueneg.files import file_checksum, written_whole
from trueneg.study import provenance
from trueneg.study.runs import Run, run_id
from trueneg.study.store import RunStore
from trueneg.training.checkpoint import Checkpoint, flush
from trueneg.training.devices import leased_device
from trueneg.training.image_text import ImageText
from trueneg.training.image_text_networks import RELEASED, ReleasedNetworks
from trueneg.training.image_text_objectives import data_checksum
from trueneg.training.simclr import SimCLR

log = logging.getLogger(__name__)

PATIENCE = 60.0  # seconds that a run's owner gets to end: it may be another job of the same pipeline, for another study
# Seconds that a job gets to load, or download, released weights: every condition of a study asks for the same run of theirs.
PATIENCE_FOR_RELEASED = 1800.0
# The row of a run that trains nothing: tables of curves name every run, and figures leave out what is no number.
UNTRAINED = {"epoch": 0, "loss": math.nan}


@dataclass(frozen=True)
class Training:
    """A kind of training: what the engine's one loop trains, and on what.

    Attributes:
        start: from settings, seed, source, subset and device to a run with the interface of
            :class:`~trueneg.training.simclr.SimCLR`.
        read_source, read_subsets: from a path to the source, and to each seed's subset.
        data_checksum: from source and settings to a checksum of what the run is made of.
        code: where the code begins that shapes the result.
        samples: what the rows and the record count, such as ``views``.
        per_pick: how many of them one sample of a batch gives.
    """

    start: Callable[..., SimCLR | ImageText | ReleasedNetworks]
    read_source: Callable[[str | Path], ImageSource | PairSource]
    read_subsets: Callable[[str | Path], Mapping[int, Subset | PairSubset]]
    data_checksum: Callable[[Any, Mapping[str, Any]], str]
    code: tuple[str, ...]
    samples: str
    per_pick: int


def _image_checksum(source: ImageSource, settings: Mapping[str, Any]) -> str:
    return source.checksum


def _start_on_pairs(settings: Mapping[str, Any], *given: Any) -> ImageText | ReleasedNetworks:
    return (ReleasedNetworks if settings["objective"]["name"] == RELEASED else ImageText)(settings, *given)


# By the kind of training that a run's settings name.
TRAININGS = {
    "images": Training(SimCLR, read_source, read_subsets, _image_checksum, provenance.TRAINING["images"], "views", 2),
    "image-text": Training(
        _start_on_pairs, read_pairs, read_pair_subsets, data_checksum, provenance.TRAINING["image-text"], "pairs", 1
    ),
}


def train_runs(
    runs: Sequence[Mapping[str, Any]],
    *,
    source: str | Path,
    subsets: str | Path,
    store: str | Path,
    manifest: str | Path,
    retrain_stale: bool = False,
) -> None:
    """Train what is missing of one objective's runs, and write the manifest that names all of them.

    Killed at any moment and called again, it goes on from the last checkpoint; on a CPU with the same result, bit for bit.

    Args:
        runs: as :meth:`trueneg.study.runs.Run.to_json` gives them; all of one data set and objective.
        source: decoded images (npz); or images and sentences (npz, with its parquet file beside it).
        subsets: the seeds' subsets (parquet).
        store: the run store's folder.
        manifest: JSON file to write: study, dataset, objective, and for each run its seed, id and the model's checksum.
        retrain_stale: train anew the finished runs whose code fingerprint is not today's; the old ones are moved aside.

    Raises:
        UserError: if the data do not fit, another process writes one of the runs, or a loss stops being a number.
    """
    runs = [Run(**run) for run in runs]
    technical = runs[0].settings["training"]
    kind = TRAININGS[provenance.training_kind(runs[0].settings)]
    store, data, by_seed = RunStore(store), kind.read_source(source), kind.read_subsets(subsets)
    identifiers = [run_id(run, kind.data_checksum(data, run.settings)) for run in runs]
    torch.set_num_threads(technical["threads"])
    # A block whose runs are all finished needs no device, and waits for none.
    missing = retrain_stale or any(store.state(identifier) != "finished" for identifier in identifiers)
    with (
        leased_device(technical["device"], share=technical["runs_per_device"]) if missing else contextlib.nullcontext() as device,
        _progress(f"{runs[0].dataset} {runs[0].objective}", len(runs), kind.samples) as bar,
    ):
        log.info("%s, %s: %d runs on %s", runs[0].dataset, runs[0].objective, len(runs), device or "no device, all finished")
        for run, identifier in zip(runs, identifiers, strict=True):
            patience = PATIENCE_FOR_RELEASED if run.settings["objective"]["name"] == RELEASED else PATIENCE
            with store.owned(identifier, patience=patience) as folder:
                if retrain_stale:
                    _move_stale_aside(store, identifier, kind)
                if store.state(identifier) == "finished":
                    log.info("seed %d: run %s is finished, taken as it is", run.seed, identifier)
                else:
                    _train(run, identifier, folder, kind, data, _subset_for(run, by_seed, data, subsets), device, bar)
                store.forget_progress(identifier)
            bar.finished_run()
    listed = [
        {"seed": run.seed, "id": identifier, "checksum": file_checksum(store.folder(identifier) / RunStore.MODEL)}
        for run, identifier in zip(runs, identifiers, strict=True)
    ]
    content = {"study": runs[0].study, "dataset": runs[0].dataset, "objective": runs[0].objective, "runs": listed}
    with written_whole(manifest) as path:
        path.write_text(json.dumps(content, indent=2) + "\n")


def _subset_for(
    run: Run, by_seed: Mapping[int, Subset | PairSubset], source: ImageSource | PairSource, path: str | Path
) -> Subset | PairSubset:
    subset = by_seed.get(run.seed)
    if subset is None or subset.source_checksum != source.checksum:
        found = "no subset of that seed" if subset is None else "a subset of other images"
        raise UserError(f"{path}: holds {found} (seed {run.seed}); remove it to have it drawn again.")
    return subset


def _train(
    run: Run,
    identifier: str,
    folder: Path,
    kind: Training,
    source: ImageSource | PairSource,
    subset: Subset | PairSubset,
    device: torch.device,
    bar: "_Progress",
) -> None:
    # Taken before the first update: a file edited while this process computes has no part in the result.
    fingerprint = provenance.fingerprint(kind.code)
    checkpoint = Checkpoint(
        folder,
        digest=f"{identifier}-{fingerprint}",
        minutes=run.settings["training"]["checkpoint_minutes"],
        about={"dataset": run.dataset, "objective": run.objective, "seed": run.seed},
    )
    training = kind.start(run.settings, run.seed, source, subset, device)
    rows = checkpoint.restore(training)
    while training.epoch < training.epochs:
        row = training.train_epoch(after_update=lambda: checkpoint.after_update(training, rows))
        rows.append({"epoch": training.epoch, **row})
        checkpoint.after_epoch(training, rows)
        bar.finished_epoch(run.seed, training.epoch, training.epochs, row)
    with written_whole(folder / RunStore.CURVES) as path:
        pd.DataFrame(rows or [UNTRAINED]).to_parquet(path, index=False)
        flush(path)
    with written_whole(folder / RunStore.MODEL) as path:
        save_file(training.weights(), path)
        flush(path)
    attempts = checkpoint.attempts
    record = run.to_json() | {
        "id": identifier,
        "source": {"name": source.name, "checksum": source.checksum},
        "images": len(subset.train),
        "fingerprint": fingerprint,
        "versions": provenance.versions(),
        "commit": provenance.commit(),
        "machine": provenance.machine(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        kind.samples: kind.per_pick * training.updates * training.batch_size,
        "seconds": sum(attempts),
        "attempts": attempts,
        "finished": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }
    with written_whole(folder / RunStore.RECORD) as path:
        path.write_text(json.dumps(record, indent=2) + "\n")
        flush(path)


def _move_stale_aside(store: RunStore, identifier: str, kind: Training) -> None:
    if store.state(identifier) != "finished":
        return
    record = store.record(identifier)
    if record["fingerprint"] != provenance.fingerprint(kind.code):
        aside = store.path / "stale" / f"{identifier}-{record['fingerprint']}"
        aside.mkdir(parents=True, exist_ok=True)
        for name in (RunStore.RECORD, RunStore.MODEL, RunStore.CURVES):
            (store.folder(identifier) / name).rename(aside / name)
        log.info("run %s was made with other code; moved to %s", identifier, aside)


class _Progress:
    """One bar a job on a terminal; one line an epoch in the log, wherever it runs."""

    def __init__(self, bar: tqdm, samples: str):
        self._bar = bar
        self._samples = samples
        self._runs = 0

    def finished_epoch(self, seed: int, epoch: int, epochs: int, row: Mapping[str, float]) -> None:
        self._bar.n = self._runs + epoch / epochs
        speed = row[f"{self._samples}_per_second"]
        self._bar.set_postfix_str(f"seed {seed}, loss {row['loss']:.3f}, {speed:,.0f} {self._samples}/s")
        log.info(
            "seed %d  epoch %d/%d  loss %.4f  at bound %.3f  %.0f %s/s",
            seed,
            epoch,
            epochs,
            row["loss"],
            row["share at bound common"],
            speed,
            self._samples,
        )

    def finished_run(self) -> None:
        self._runs += 1
        self._bar.n = self._runs
        self._bar.refresh()


@contextlib.contextmanager
def _progress(title: str, total: int, samples: str) -> Iterator[_Progress]:
    form = "{desc} |{bar}| {n:.1f}/{total} runs [{elapsed}<{remaining}{postfix}]"
    with tqdm(total=total, desc=title, bar_format=form, disable=not sys.stderr.isatty(), leave=False) as bar:
        yield _Progress(bar, samples)
