"""Train the runs of a job: reuse finished runs from the store, resume interrupted ones, and list
all runs in a manifest.
"""

import functools
import json
import logging
import math
import pkgutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import save
from torch import Tensor
from tqdm import tqdm

from trueneg.config.runs import OF_GUIDE, Run, training_devices
from trueneg.data.mining import false_by_rank
from trueneg.data.run_inputs import data_checksum
from trueneg.data.samples import read_subsets
from trueneg.errors import UserError
from trueneg.io.files import atomic_write, write_tables, write_text
from trueneg.runtime.checkpoint import Checkpoint
from trueneg.runtime.devices import device_name, leased_device
from trueneg.runtime.distributed import ALONE, Processes, run_distributed
from trueneg.runtime.memory import catch_out_of_memory, smaller_batch
from trueneg.specs.kinds import kind_of
from trueneg.store import provenance, versions
from trueneg.store.identity import is_trained, refuse_other_settings, run_id, with_inputs
from trueneg.store.run_files import checksum_of, named_files
from trueneg.store.run_store import RunStore
from trueneg.store.winners import chosen
from trueneg.training.frozen import read_frozen, vector_names, with_vectors_apart
from trueneg.training.loop import TrainingRun

log = logging.getLogger(__name__)

# Seconds to wait for a run's current owner: as long as it lives. It may be a job of the same
# pipeline, because studies and objectives share runs, or have outlived a killed Snakemake.
PATIENCE = math.inf
# Row for a run without training: curve tables list every run, and figures skip NaN.
UNTRAINED = {"epoch": 0, "loss": math.nan}


def train_runs(
    runs: Any,
    *,
    source: str | Path,
    subsets: str | Path,
    store: str | Path,
    manifest: str | Path,
    vectors: Sequence[str | Path] = (),
    winners: str | Path | None = None,
    mined: str | Path | None = None,
) -> None:
    """Train the unfinished runs of one objective, and write the manifest that lists all of its
    runs.

    If killed at any point and called again, it resumes from the last checkpoint; on a CPU, the
    result is bit-identical.

    Args:
        runs: runs as returned by :meth:`trueneg.config.runs.Job.to_json`, all with the same data
            set and objective.
        source: decoded images (npz); or images and sentences (npz, with its parquet file beside
            it).
        subsets: subsets for all seeds (parquet).
        store: folder of the run store.
        manifest: JSON file to write: study, dataset, objective, and for each run its seed, id and
            model checksum.
        vectors: stored vectors of the runs' frozen towers.
        winners: file with the winner that decides which of the runs are trained; None: all of them.
        mined: mined hard negatives; None: the runs mine none.

    Raises:
        UserError: if the data do not match the runs, another process is writing one of the runs, or
            a loss becomes NaN or infinite.
    """
    variant = None
    if winners is not None:
        variant, runs = chosen(runs, winners)
    # Plain values, which can be passed to other processes.
    plain = (
        [dict(run) for run in runs],
        str(source),
        str(subsets),
        str(store),
        [str(path) for path in vectors],
        None if mined is None else str(mined),
    )
    read = functools.partial(TrainingJob, *plain)
    block = read()
    settings = block.runs[0].settings
    wanted, count = training_devices(settings)
    if all(block.store.state(identifier) in RunStore.TRAINED for identifier in block.identifiers):
        block.train(None)  # no device is needed, so do not wait for one
    else:
        with leased_device(
            wanted, share=settings["training"]["runs_per_device"], count=count
        ) as device:
            if count == 1:
                block.train(device)
            else:
                run_distributed(functools.partial(_train_share, read), device.type, count)
    block.write_manifest(manifest, variant)


def _train_share(
    read: Callable[[], "TrainingJob"], device: torch.device, processes: Processes
) -> None:
    read().train(device, processes)


class TrainingJob:
    """The runs of a job: one objective on one data set, for one or more seeds; takes the same
    arguments as :func:`train_runs`.

    Attributes:
        runs: the runs with their settings.
        identifiers: ids of the runs.
        store: run store that contains the runs.
    """

    def __init__(
        self,
        runs: Sequence[Mapping[str, Any]],
        source: str,
        subsets: str,
        store: str,
        vectors: Sequence[str] = (),
        mined: str | None = None,
    ):
        self.runs = [Run(**run) for run in runs]
        self.store = RunStore(store)
        self._kind = kind_of(self.runs[0].settings)
        self._training: Any = pkgutil.resolve_name(self._kind.TRAINING)
        self._source = pkgutil.resolve_name(self._kind.READER)(source)
        self._subsets = read_subsets(subsets)
        self._vectors = vector_names(self.runs[0].settings)  # the runs differ only in their seeds
        self._frozen = read_frozen(self._vectors, self._source, vectors, mined)
        self.identifiers = [run_id(run, self._data_checksum(run)) for run in self.runs]
        self._subsets_path = subsets

    def train(self, device: torch.device | None, processes: Processes = ALONE) -> None:
        """Train the unfinished runs, one after the other.

        Args:
            device: device to train on; None if all runs are finished.
            processes: processes that train together; the first one owns a run and writes its files.
        """
        first = self.runs[0]
        is_first = processes.rank == 0
        torch.set_num_threads(first.settings["training"]["threads"])
        if is_first:
            where = f" on {device}" if device else ", all finished"
            log.info("%s, %s: %d runs%s", first.dataset, first.objective, len(self.runs), where)
        listed = list(zip(self.runs, self.identifiers, strict=True))
        # With disable=None, tqdm shows the bar only on a terminal.
        title = f"{first.dataset} {first.objective}"
        disable = None if is_first else True
        with tqdm(listed, title, leave=False, unit=" runs", disable=disable) as bar:
            for run, identifier in bar:
                remedy = smaller_batch(run.settings["training"]["batch_size"])
                with catch_out_of_memory(
                    f"{run.dataset}, {run.objective}, seed {run.seed}", remedy
                ):
                    if is_first:
                        self._train_owned(run, identifier, device, processes, bar)
                    # not finished: train alongside the first process, which writes all files
                    elif not processes.same(None):
                        follower = self._start(run, device, processes)
                        processes.share_state(follower)
                        while follower.epoch < follower.epochs:
                            follower.train_epoch()

    def _train_owned(
        self, run: Run, identifier: str, device: Any, processes: Processes, bar: tqdm
    ) -> None:
        with self.store.owned(identifier, min(PATIENCE, processes.patience)) as folder:
            finished = self.store.state(identifier) in RunStore.TRAINED
            processes.same(finished)
            if not finished:
                self._train(run, identifier, folder, device, processes, bar)
            else:
                record = self.store.record(identifier)
                refuse_other_settings(folder / RunStore.RECORD, record["settings"], run.settings)
                log.info("seed %d: run %s is finished and reused", run.seed, identifier)
            self.store.forget_progress(identifier)

    def _train(
        self,
        run: Run,
        identifier: str,
        folder: Path,
        device: torch.device,
        processes: Processes,
        bar: tqdm,
    ) -> None:
        # before the first update: code edited during the training does not affect the result
        code = provenance.environment(versions.training_versions(run.settings))
        files = {
            name: checksum_of(name)
            for name in named_files(run.settings).values()
            if Path(name).exists()
        }
        checkpoint = Checkpoint(
            folder,
            digest=f"{identifier}-{versions.digest(code['code']['versions'])}",
            minutes=run.settings["training"]["checkpoint_minutes"],
            about={"dataset": run.dataset, "objective": run.objective, "seed": run.seed},
            device=device_name(device),
            devices=processes.count,
        )
        with checkpoint:
            if is_trained(run.settings):
                training = self._start(run, device, processes)
                rows = _train_epochs(training, checkpoint, bar)
                updates = training.updates
                weights = training.weights()
            else:
                rows = [UNTRAINED]
                updates = 0
                weights = self._untrained_weights(run)
        self.store.clear(identifier)  # with the new weights, an old record would be a finished run
        _write_finished(run, folder, weights, rows, updates)
        subset = self._subset_of(run)
        source = {
            "name": self._source.name,
            "checksum": self._source.checksum,
            "skipped": self._source.skipped,
            "leakage": subset.leakage,
            "near": subset.near,
        }
        false_negatives = self._training.false_negatives(self._source, subset, run.settings)
        record = run.to_json() | {
            "id": identifier,
            "source": {key: value for key, value in source.items() if value},
            "data": self._data_checksum(run),
            "false_negatives": false_negatives | self._mined_facts(run),
            "files": files,
            "towers": self._frozen.towers,
            "images": len(subset.train),
            **code,
            "device": device_name(device),
            "devices": processes.count,
            "threads": torch.get_num_threads(),
            self._training.SAMPLES: (
                self._training.PER_PICK * updates * run.settings["training"]["batch_size"]
            ),
            **checkpoint.spent(),
            "finished": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        }
        self.store.finish(identifier, record)

    def _mined_facts(self, run: Run) -> dict[str, Any]:
        """Return what is known about a run's mined hard negatives; empty if it mines none."""
        mined = self._frozen.mined.get(run.seed)
        if mined is None:
            return {}
        classes = self._source.sentences["class"].to_numpy()
        return {"mined": mined.checksum, "false_by_rank": false_by_rank(mined, classes)}

    def _data_checksum(self, run: Run) -> str:
        weights = {section: tower["weights"] for section, tower in self._frozen.towers.items()}
        mined = self._frozen.mined.get(run.seed)
        return with_inputs(
            data_checksum(self._source, run.settings), weights, mined and mined.checksum
        )

    def _start(self, run: Run, device: torch.device | None, processes: Processes) -> TrainingRun:
        return self._training(
            run.settings,
            run.seed,
            self._source,
            self._subset_of(run),
            device,
            processes,
            self._frozen,
        )

    def _untrained_weights(self, run: Run) -> dict[str, Tensor]:
        weights_of = self._training.untrained_weights
        return weights_of(run.settings, run.seed, self._source, self._subset_of(run), self._frozen)

    def _subset_of(self, run: Run) -> Any:
        subset = self._subsets.get(run.seed)
        if subset is None or subset.source_checksum != self._source.checksum:
            content = (
                "no subset for" if subset is None else "a subset drawn from different images for"
            )
            raise UserError(
                f"{self._subsets_path} contains {content} seed {run.seed}; delete the file to"
                " redraw its subsets."
            )
        return with_vectors_apart(subset, self._source, run.settings, self._frozen.inputs)

    def write_manifest(self, path: str | Path, variant: str | None = None) -> None:
        """Write a JSON file that lists the runs and the checksums of their models, and the variant
        if a winner decided it.
        """
        first = self.runs[0]
        content: dict[str, Any] = {
            "study": first.study,
            "dataset": first.dataset,
            "objective": first.objective,
        }
        if variant is not None:
            content["variant"] = variant
        if in_evaluation := {
            section: name
            for section, name in self._vectors.items()
            if not section.startswith(OF_GUIDE)
        }:
            content["vectors"] = in_evaluation
        content["runs"] = [
            {"seed": run.seed, "id": identifier, "checksum": self.store.checksum(identifier)}
            for run, identifier in zip(self.runs, self.identifiers, strict=True)
        ]
        write_text(path, json.dumps(content, indent=2) + "\n")


def _train_epochs(
    training: TrainingRun, checkpoint: Checkpoint, bar: tqdm
) -> list[dict[str, float]]:
    """Train a run from its last checkpoint to its end, and return the rows of its epochs."""
    rows = checkpoint.restore(training)
    training.processes.share_state(training)
    while training.epoch < training.epochs:
        row = training.train_epoch(after_update=lambda: checkpoint.after_update(training, rows))
        rows.append({"epoch": training.epoch, **row})
        checkpoint.after_epoch(training, rows)
        _report(training, row, bar)
    return rows


def _write_finished(
    run: Run,
    folder: Path,
    weights: Mapping[str, Tensor],
    rows: Sequence[Mapping[str, float]],
    updates: int,
) -> None:
    """Write the curves and the weights of a run whose training has ended.

    Raises:
        UserError: if the weights contain NaN or inf.
    """
    if not all(value.isfinite().all() for value in weights.values()):
        rate = run.settings["training"]["learning_rate"]
        raise UserError(
            f"{run.dataset}, {run.objective}, seed {run.seed}: after the last of {updates} updates,"
            " the weights contain NaN or inf, so the run was not saved; lower"
            f" training.learning_rate, which is {rate:g}."
        )
    write_tables({folder / RunStore.CURVES: pd.DataFrame(rows)})
    with atomic_write(folder / RunStore.MODEL) as path:
        path.write_bytes(save(dict(weights)))


def _report(training: TrainingRun, row: Mapping[str, float], bar: tqdm) -> None:
    """Show an epoch on the progress bar and in the log."""
    speed = f"{row[f'{training.SAMPLES}_per_second']:,.0f} {training.SAMPLES}/s"
    position = f"epoch {training.epoch}/{training.epochs}"
    bar.set_postfix_str(f"seed {training.seed}, {position}, loss {row['loss']:.3f}, {speed}")
    log.info(
        "seed %d  %s  loss %.4f  at bound %.3f  %s",
        training.seed,
        position,
        row["loss"],
        row["share at bound common"],
        speed,
    )
