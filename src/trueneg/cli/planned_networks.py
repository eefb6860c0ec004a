"""The networks and language models of a study, built by the code of the jobs before anything is
trained.
"""

import contextlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from trueneg.cli.planned_data import PlannedRun, tables_of
from trueneg.config.runs import all_towers, datasets, features_key
from trueneg.data.leakage import EXAMPLES
from trueneg.data.tables import places_of
from trueneg.data.user_files import compare_files, missing_files
from trueneg.errors import LongTextsError, UserError
from trueneg.io.downloads import announced
from trueneg.specs.encoders import is_frozen
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.specs.kinds.pairs import ImageTextStudy
from trueneg.specs.sections import Section
from trueneg.store import data_input

COUNTED = 20_000  # texts whose tokens are counted
MEASURED_SAMPLES = 16  # by a tower
FILES = ("weights", "model")  # settings of a network that name files


# processor seconds of a sample in a tower on this machine, and the size of its vector
TowerPace: TypeAlias = tuple[float, int]


def planned_networks(
    study: ImageTextStudy,
    runs: Sequence[PlannedRun],
    results: Path,
) -> list[str]:
    """Check the networks of an image–text study, and list files that are missing or changed.

    Args:
        study: the study.
        runs: runs to train, with their data.
        results: the results folder.
    """
    lines = [f"MISSING {part}" for part in missing_networks(study)]
    lines = lines or check_networks(runs, 1 if study.dataset.greyscale else 3)
    return lines + _benchmark(study, results)


def missing_networks(study: ImageTextStudy) -> list[str]:
    """List missing files of released networks and where to get them."""
    files: dict[str, str] = {}
    for objective in study.objectives.values():
        sections = study.sections_of(objective)
        if sections["encoder"].name == "biovil":
            files[sections["encoder"].weights] = "BioViL's image model"
        if (head := getattr(sections["text_encoder"], "projection", None)) is not None:
            files[head] = "BioViL's text projection"
    missing = ", ".join(
        f"{file} ({what})" for file, what in files.items() if not Path(file).is_file()
    )
    return [f"{missing}. Download and convert them: docs/encoders.md."] if missing else []


def check_networks(runs: Iterable[PlannedRun], channels: int) -> list[str]:
    """Build each kind of networks that the runs use, except towers, tokenise the sentences, and
    list the weights to download.

    Networks without files or sentences are not built: nothing is known of them that a job could
    refuse, and imports are slow.

    Args:
        runs: image–text runs with their data.
        channels: channels of the images.

    Raises:
        UserError: as in the training job, if networks cannot be built, weights are missing or do
            not fit, or a sentence is too long.
    """
    sections = ("encoder", "text_encoder", "projection")
    kinds = {
        repr([run.dataset, *map(run.settings.get, sections)]): (run.settings, data.sentences)
        for run, data in runs
    }
    kinds = {
        kind: made
        for kind, made in kinds.items()
        if made[1] or any(made[0][section].get(key) for section in sections for key in FILES)
    }
    if not kinds:
        return []
    from trueneg.data.stored_features import StoredFeatures
    from trueneg.models.text_encoders import tokenise
    from trueneg.training.frozen import Frozen, encoder_of, is_tower
    from trueneg.training.networks import build_networks
    from trueneg.training.sides.base import TrainedOn

    # of towers, which are checked apart
    placeholder: Any = StoredFeatures(np.zeros((1, 1, 8, 2), np.float32), (1, 1), "", "")
    downloads: list[str] = []
    for settings, sentences in kinds.values():
        offline = settings["text_encoder"].get("offline") and settings["text_encoder"]["model"]
        towers = {section: placeholder for section in sections[:2] if is_tower(settings, section)}
        with announced(downloads, offline):
            known = TrainedOn(sentences, channels, ([0.0] * channels, [1.0] * channels))
            anchors = build_networks(settings, known, Frozen(towers)).anchors
            if anchors.tokenizer is not None and (texts := sorted(set(sentences))):
                limits = {
                    "maximum_tokens": anchors.maximum_tokens,
                    "truncate": settings["text_encoder"]["truncate"],
                }
                with _naming_rows(runs):
                    tokenise(anchors.tokenizer, texts, **limits)
            continue
        if "encoder" not in towers:
            with announced(downloads):  # the text encoder must be downloaded first
                encoder_of(settings, "encoder").build(settings["encoder"], channels)
    return list(dict.fromkeys(downloads))


def check_towers(runs: Iterable[PlannedRun]) -> tuple[list[str], dict[str, TowerPace]]:
    """Check the towers of all runs; return those that must be downloaded, and the paces of all by
    the names of their vectors.

    The libraries of the towers are slow to import and need much memory, so only a separate process
    imports them.

    Raises:
        UserError: as in the job that computes or trains a tower.
    """
    towers = {
        features_key(made): (made, data)
        for run, data in runs
        for made in all_towers(run.settings).values()
    }
    networks = {}
    paces: dict[str, TowerPace] = {}
    for name, (made, data) in towers.items():
        if made["tower"]["name"] != "vectors":
            texts = set(data.sentences) if made["samples"] == "texts" else ()
            networks[name] = (made, sorted(texts))
        elif data.source is not None and (made["samples"] == "images" or data.sentences):
            from trueneg.training.frozen import vectors_of_file

            paces[name] = 0.0, vectors_of_file(made, data.source).shape[2]
    lines = _shared_vectors(runs)
    if not networks:
        return lines, paces
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, _naming_rows(runs):
        downloads, measured = pool.submit(_build_towers, networks).result()
    return lines + downloads, paces | measured


@contextlib.contextmanager
def _naming_rows(runs: Iterable[PlannedRun]) -> Iterator[None]:
    """Add the first rows of the user's tables to an error about long texts."""
    try:
        yield
    except LongTextsError as error:
        tables = dict.fromkeys(table for _, data in runs for table in data.tables)
        raise UserError(f"{error}{_rows_of(error.texts, tables)}") from error


def _rows_of(texts: Sequence[str], tables: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    """Return a sentence about the rows of some texts; empty if they are in no table."""
    shown = texts[:EXAMPLES]
    places = [place for file, columns in tables for place in places_of(file, columns, shown)]
    return f" Some are in {'; '.join(places[:EXAMPLES])}." if places else ""


def _shared_vectors(runs: Iterable[PlannedRun]) -> list[str]:
    """Say what the splits share by the user's vectors, by the code of the training.

    Raises:
        UserError: if this is not allowed.
    """
    lines = {}
    for run, data in runs:
        named = {
            section: made
            for section, made in all_towers(run.settings).items()
            if section in ("encoder", "text_encoder") and "path" in made["tower"]
        }
        key = repr([run.dataset, *map(features_key, named.values())])
        if not named or data.subset is None or key in lines:
            continue
        from trueneg.training.frozen import vectors_of_file, with_vectors_apart

        values = {section: vectors_of_file(made, data.source) for section, made in named.items()}
        subset = with_vectors_apart(data.subset, data.source, run.settings, values)
        lines[key] = subset.leakage.removeprefix(data.subset.leakage).strip()
    return list(filter(None, lines.values()))


def _build_towers(
    networks: Mapping[str, tuple[Section, Sequence[str]]],
) -> tuple[list[str], dict[str, TowerPace]]:
    from trueneg.training.frozen import usable_tower

    downloads: list[str] = []
    paces = {}
    for name, (made, texts) in networks.items():
        with announced(downloads, made["tower"].get("offline") and made["tower"]["model"]):
            tower = usable_tower(made, texts)
            if is_frozen(made["tower"]) and (texts or made["samples"] == "images"):
                paces[name] = _measured_tower(tower, made["tower"].get("resolution"), texts)
    return list(dict.fromkeys(downloads)), paces


def _measured_tower(tower: Any, side: int | None, texts: Sequence[str]) -> TowerPace:
    """Measure a batch of random images with a side in pixels, or of texts, if there are any."""
    import torch

    batch = torch.rand(MEASURED_SAMPLES, 3, *2 * [side or 224])
    if texts:
        batch = tower.prepare(texts[:: 1 + len(texts) // MEASURED_SAMPLES])
    with torch.inference_mode():
        count, dimensions = tower(batch).pooled.shape  # the first pass is slower
        began = time.process_time()
        tower(batch)
    return (time.process_time() - began) / count, dimensions


def check_language_models(
    study: LikelihoodStudy, sentences: pd.DataFrame | None, missing: Collection[str]
) -> list[str]:
    """Create or load the language models of a study, count tokens, and list models to download.

    Args:
        study: the likelihood study.
        sentences: table with ``patient`` and ``sentence``; None: the reports have not been split
            yet.
        missing: names of the models whose scores are missing.

    Raises:
        UserError: as in the jobs, if a model cannot be created or loaded, or there are too few
            sentences.
    """
    if sentences is None and not any(study.language_models[name].model for name in missing):
        return []  # spares slow imports
    from trueneg.text.folds import training_parts, with_folds
    from trueneg.text.loading import load_language_model, longest_input
    from trueneg.text.masked_lm import new_masked_lm
    from trueneg.text.tokenizing import too_long, unexpressed

    lines: list[str] = []
    texts = [] if sentences is None else sentences["sentence"].tolist()
    for name in missing:
        model = study.language_models[name]
        if model.train and sentences is not None:
            table = with_folds(sentences, model.folds, study.seed)
            for fold in range(model.folds):
                learned = training_parts(table, fold, model.validation, study.seed)[0]["sentence"]
                if model.model is None:  # the vocabulary needs room for every character
                    characters = "".join(sorted(set().union(*learned)))
                    new_masked_lm([characters, *learned[:COUNTED]], model.model_dump(), study.seed)
        if model.model is not None:
            hub: dict[str, Any] = {
                "revision": model.revision,
                "trust_remote_code": model.trust_remote_code,
            }
            with announced(lines):
                loaded = load_language_model(
                    model.model, variant="original" if model.train else study.scoring.variant, **hub
                )
                counted = list(dict.fromkeys(texts))[:COUNTED], loaded[1], longest_input(*loaded)
                if unusual := unexpressed(*counted):
                    rows = _rows_of(too_long(*counted), tables_of(study.reports.model_dump()))
                    lines.append(f"{name}: {unusual}.{rows}")
    return list(dict.fromkeys(lines))


def _benchmark(study: ImageTextStudy, results: Path) -> list[str]:
    """List files of CheXpert 8×200 that are missing, or changed since they were read."""
    lists = study.evaluation.chexpert_8x200
    if lists is None:
        return []
    inputs = (
        data_input.of_benchmark(lists, dataset.model_dump()) for dataset in datasets(study).values()
    )
    lines = []
    for data in {each.place: each for each in inputs}.values():
        if data.record(results).is_file():
            lines += compare_files(data, results).sentences
        else:
            lines += [f"MISSING {part}" for part in missing_files(data)]
    return lines
