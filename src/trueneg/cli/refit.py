"""Train the method that a finished study advises on all of its data, for use."""

import pkgutil
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueneg.cli.model_card import export
from trueneg.config.runs import Run, features_key, jobs, miner
from trueneg.data.draw import draw_subsets, read_samples
from trueneg.data.mining import write_mined
from trueneg.data.samples import read_subsets
from trueneg.data.texts.text_splits import unscored
from trueneg.errors import UserError
from trueneg.legible import counted
from trueneg.report.advice import advice
from trueneg.report.gathered import Gathered
from trueneg.specs.kinds import kind_of
from trueneg.specs.kinds.texts import TextStudy
from trueneg.specs.objectives.base import FROM_LIKELIHOODS
from trueneg.specs.sections import RunSettings
from trueneg.store.records import Manifest, read_json
from trueneg.store.run_files import require_unchanged, stored_files
from trueneg.store.run_store import RunStore
from trueneg.training.engine import train_runs
from trueneg.training.export import require_empty
from trueneg.training.frozen import vector_names

# data settings with which all samples are for training; no study may state this share
NOTHING_HELD_OUT: dict[str, Any] = {
    "validation": 0.0,
    "test": 0.0,
    "labels": None,
    "fraction": 1.0,
    "rare_classes": [],
    "images_per_class": None,
}


def refit(name: str, folder: Path, method: str | None, seeds: int, results: Path) -> str:
    """Train a method with the settings that a study compared, on all samples of the study, and
    export the encoders of each seed. Finished runs are reused, interrupted ones resume.

    Args:
        name: the study.
        folder: a new folder; with several seeds, it gets a subfolder for each.
        method: the objective; None: the one that the study advises.
        seeds: number of seeds.
        results: the results folder.

    Returns:
        What was trained, and why.

    Raises:
        UserError: if the study is not finished, advises no training, or has no such method, or the
            method needs class probabilities that some texts do not have.
    """
    require_empty(folder)
    if seeds < 1:
        raise UserError(f"--seeds is {seeds}; expected at least 1.")
    finished = sorted(path.parents[1].name for path in results.glob("*/artefacts/comparison.json"))
    if name not in finished:
        raise UserError(
            f"{results} has no finished study {name}; finished: {', '.join(finished) or 'none'}."
            " Run snakemake with its configuration first."
        )
    gathered = Gathered(results / name / "artefacts")
    method, reason = _chosen(gathered, method)
    settings = _settings(gathered, name, method, RunStore(results / "runs"))
    kind = kind_of(settings)
    place = results / name / "refit" / method
    files: dict[str, Any] = {
        "source": results / f"{kind.data_place(settings['dataset'])}.npz",
        "subsets": place / "subsets.parquet",
    }
    draw_subsets(kind, **files, settings=settings["dataset"], seeds=range(seeds))
    vectors = _vectors(settings, results)
    if kind is TextStudy:
        _refuse_unscored(method, settings, **files)
    mined = None
    if (made_of := miner(settings)) is not None:
        mined = place / "mined.npz"
        write_mined(
            **files,
            vectors=results / f"features/{features_key(made_of)}.npz",
            mined=mined,
            bm25=settings["objective"]["hard_negatives"].get("bm25", False),
        )
    train_runs(
        [Run(name, "all data", method, seed, settings).to_json() for seed in range(seeds)],
        **files,
        store=results / "runs",
        manifest=place / "manifest.json",
        vectors=vectors,
        mined=mined,
    )
    for run in read_json(place / "manifest.json", Manifest)["runs"]:
        part = folder / f"seed{run['seed']}" if seeds > 1 else folder
        export(run["id"], part, results)
    return (
        f"{reason} Trained {method} with {counted(seeds, 'seed')} on all samples, and evaluated on"
        f" nothing. {folder} has the encoders with their model cards."
    )


def _vectors(settings: RunSettings, results: Path) -> list[Path]:
    """Return the files of the stored vectors of a run's frozen towers, which must not have changed
    since.
    """
    paths = [results / f"features/{key}.npz" for key in vector_names(settings).values()]
    for path in paths:
        require_unchanged(stored_files(path))
    return paths


def _chosen(gathered: Gathered, method: str | None) -> tuple[str, str]:
    """Return the method to train, which is the advised one if None is given, and the reason."""
    trained = [each for each, objective in gathered.study.objectives.items() if objective.TRAINED]
    reason = "Chosen with --method."
    if method is None:
        method, reason = advice(gathered)
    if method is None:
        raise UserError(
            f"{reason} To train all the same, choose a method with --method: {', '.join(trained)}."
        )
    if method not in trained:
        raise UserError(f"--method is {method}; expected one of: {', '.join(trained)}.")
    return method, reason


def _settings(gathered: Gathered, name: str, method: str, store: RunStore) -> RunSettings:
    """Return the settings that the study compared for an objective, with nothing held out and as
    many updates.
    """
    variant = gathered.chosen(method)
    settings = next(
        choice.runs[0].settings
        for job in jobs(name, gathered.study)
        if (job.dataset, job.row_names["objective"]) == (gathered.dataset, method)
        for choice in job.choices.values()
        if choice.variant == variant
    )
    for key, value in settings["objective"].items():
        if isinstance(value, Mapping) and value.get("schedule") == "adjusted":
            raise UserError(
                f"objectives.{method}.{key} is measured on the validation split in training, but"
                " nothing is held out. Choose another method with --method."
            )
    dataset = settings["dataset"]
    changed = {key: value for key, value in NOTHING_HELD_OUT.items() if key in dataset}
    training = settings["training"]
    if training["epochs"] is not None:  # which have more updates on more samples
        training = {**training, "epochs": None, "updates": _updates(gathered, method, store)}
    return {**settings, "dataset": {**dataset, **changed}, "training": training}


def _updates(gathered: Gathered, method: str, store: RunStore) -> int:
    """Return the number of updates of an objective's compared runs, the median if seeds differ."""
    training: Any = pkgutil.resolve_name(gathered.study.TRAINING)
    rows = gathered.rows
    of_method = (rows["dataset"] == gathered.dataset) & (rows["objective"] == method)
    records = map(store.record, rows.loc[of_method, "run"].unique())
    return statistics.median_low(
        record[training.SAMPLES]
        // (training.PER_PICK * record["settings"]["training"]["batch_size"])
        for record in records
    )


def _refuse_unscored(method: str, settings: RunSettings, source: Path, subsets: Path) -> None:
    """Check that all training texts have class probabilities, if the objective uses them."""
    for key in ("class_probability", "switched_off_by"):
        if (eta := settings["objective"].get(key)) not in FROM_LIKELIHOODS:
            continue
        texts = read_samples(TextStudy, source)
        if lacking := unscored(texts, read_subsets(subsets)[0].train):  # the same in every subset
            raise UserError(
                f"objectives.{method}.{key} is {eta!r}, but study {settings['dataset']['text']} has"
                f" no class probability of {lacking:,} texts to train on, because it scores neither"
                " test texts of the source nor texts of labels without training; expected one of"
                " every text. Choose a method that uses none with --method."
            )
