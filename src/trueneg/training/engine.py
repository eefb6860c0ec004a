"""Train the runs of a job: what is finished is taken from the store, what is begun continues, and a manifest lists them."""

import contextlib
import json
import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import save_file
from tqdm import tqdm

from trueneg.datasets.images import ImageSource, read_source
from trueneg.datasets.subsets import Subset, read_subsets
from trueneg.errors import UserError
from trueneg.files import file_checksum, written_whole
from trueneg.study import provenance
from trueneg.study.runs import Run, run_id
from trueneg.study.store import RunStore
from trueneg.training.checkpoint import Checkpoint, flush
from trueneg.training.devices import leased_device
from trueneg.training.simclr import SimCLR

log = logging.getLogger(__name__)

PATIENCE = 15.0  # seconds that a run's former owner gets to end


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
        source: decoded images (npz).
        subsets: the seeds' subsets (parquet).
        store: the run store's folder.
        manifest: JSON file to write: study, dataset, objective, and for each run its seed, id and the model's checksum.
        retrain_stale: train anew the finished runs whose code fingerprint is not today's; the old ones are moved aside.

    Raises:
        UserError: if the data do not fit, another process writes one of the runs, or a loss stops being a number.
    """
    runs = [Run(**run) for run in runs]
    store, images, by_seed = RunStore(store), read_source(source), read_subsets(subsets)
    identifiers = [run_id(run, images.checksum) for run in runs]
    technical = runs[0].settings["training"]
    torch.set_num_threads(technical["threads"])
    # A block whose runs are all finished needs no device, and waits for none.
    missing = retrain_stale or any(store.state(identifier) != "finished" for identifier in identifiers)
    with (
        leased_device(technical["device"], share=technical["runs_per_device"]) if missing else contextlib.nullcontext() as device,
        _progress(f"{runs[0].dataset} {runs[0].objective}", len(runs)) as bar,
    ):
        log.info("%s, %s: %d runs on %s", runs[0].dataset, runs[0].objective, len(runs), device or "no device, all finished")
        for run, identifier in zip(runs, identifiers, strict=True):
            with store.owned(identifier, patience=PATIENCE) as folder:
                if retrain_stale:
                    _move_stale_aside(store, identifier)
                if store.state(identifier) == "finished":
                    log.info("seed %d: run %s is finished, taken as it is", run.seed, identifier)
                else:
                    _train(run, identifier, folder, images, _subset_for(run, by_seed, images, subsets), device, bar)
                store.forget_progress(identifier)
            bar.finished_run()
    listed = [
        {"seed": run.seed, "id": identifier, "checksum": file_checksum(store.folder(identifier) / RunStore.MODEL)}
        for run, identifier in zip(runs, identifiers, strict=True)
    ]
    content = {"study": runs[0].study, "dataset": runs[0].dataset, "objective": runs[0].objective, "runs": listed}
    with written_whole(manifest) as path:
        path.write_text(json.dumps(content, indent=2) + "\n")


def _subset_for(run: Run, by_seed: Mapping[int, Subset], images: ImageSource, path: str | Path) -> Subset:
    subset = by_seed.get(run.seed)
    if subset is None or subset.source_checksum != images.checksum:
        found = "no subset of that seed" if subset is None else "a subset of other images"
        raise UserError(f"{path}: holds {found} (seed {run.seed}); remove it to have it drawn again.")
    return subset


def _train(
    run: Run, identifier: str, folder: Path, images: ImageSource, subset: Subset, device: torch.device, bar: "_Progress"
) -> None:
    # Taken before the first update: a file edited while this process computes has no part in the result.
    fingerprint = provenance.fingerprint(provenance.TRAINING)
    checkpoint = Checkpoint(
        folder,
        digest=f"{identifier}-{fingerprint}",
        minutes=run.settings["training"]["checkpoint_minutes"],
        about={"dataset": run.dataset, "objective": run.objective, "seed": run.seed},
    )
    training = SimCLR(run.settings, run.seed, images, subset, device)
    rows = checkpoint.restore(training)
    while training.epoch < training.epochs:
        row = training.train_epoch(after_update=lambda: checkpoint.after_update(training, rows))
        rows.append({"epoch": training.epoch, **row})
        checkpoint.after_epoch(training, rows)
        bar.finished_epoch(run.seed, training.epoch, training.epochs, row)
    with written_whole(folder / RunStore.CURVES) as path:
        pd.DataFrame(rows).to_parquet(path, index=False)
        flush(path)
    with written_whole(folder / RunStore.MODEL) as path:
        save_file(training.weights(), path)
        flush(path)
    attempts = checkpoint.attempts
    record = run.to_json() | {
        "id": identifier,
        "source": {"name": images.name, "checksum": images.checksum},
        "images": len(subset.train),
        "fingerprint": fingerprint,
        "versions": provenance.versions(),
        "commit": provenance.commit(),
        "machine": provenance.machine(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "views": 2 * training.updates * training.batch_size,
        "seconds": sum(attempts),
        "attempts": attempts,
        "finished": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }
    with written_whole(folder / RunStore.RECORD) as path:
        path.write_text(json.dumps(record, indent=2) + "\n")
        flush(path)


def _move_stale_aside(store: RunStore, identifier: str) -> None:
    if store.state(identifier) != "finished":
        return
    record = store.record(identifier)
    if provenance.is_stale(record):
        aside = store.path / "stale" / f"{identifier}-{record['fingerprint']}"
        aside.mkdir(parents=True, exist_ok=True)
        for name in (RunStore.RECORD, RunStore.MODEL, RunStore.CURVES):
            (store.folder(identifier) / name).rename(aside / name)
        log.info("run %s was made with other code; moved to %s", identifier, aside)


class _Progress:
    """One bar a job on a terminal; one line an epoch in the log, wherever it runs."""

    def __init__(self, bar: tqdm):
        self._bar = bar
        self._runs = 0

    def finished_epoch(self, seed: int, epoch: int, epochs: int, row: Mapping[str, float]) -> None:
        self._bar.n = self._runs + epoch / epochs
        self._bar.set_postfix_str(f"seed {seed}, loss {row['loss']:.3f}, {row['views_per_second']:,.0f} views/s")
        log.info(
            "seed %d  epoch %d/%d  loss %.4f  at bound %.3f  %.0f views/s",
            seed,
            epoch,
            epochs,
            row["loss"],
            row["share at bound common"],
            row["views_per_second"],
        )

    def finished_run(self) -> None:
        self._runs += 1
        self._bar.n = self._runs
        self._bar.refresh()


@contextlib.contextmanager
def _progress(title: str, total: int) -> Iterator[_Progress]:
    form = "{desc} |{bar}| {n:.1f}/{total} runs [{elapsed}<{remaining}{postfix}]"
    with tqdm(total=total, desc=title, bar_format=form, disable=not sys.stderr.isatty(), leave=False) as bar:
        yield _Progress(bar)
