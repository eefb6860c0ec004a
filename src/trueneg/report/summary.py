"""Gather a study's rows in one table, select variants, check each data set, and answer the study's question."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from trueneg.config import runs as study_runs
from trueneg.config.configuration import KINDS
from trueneg.errors import UserError
from trueneg.io.files import write_tables, write_text
from trueneg.report.answers import answer, verdict
from trueneg.report.labels import variant_name
from trueneg.report.published import published_numbers
from trueneg.specs.tasks import measured_by
from trueneg.stats.comparison import gate, primary_contrast, select, selected
from trueneg.stats.measurement import Measurement
from trueneg.store.identity import different_settings, same_evaluation
from trueneg.store.records import RUN, read_json, read_rows
from trueneg.store.rows import load_rows


def summarise_study(name: str, settings: Mapping[str, Any], inputs: Any, outputs: Any) -> None:
    """Gather the results of a study's blocks of seeds and compare its objectives.

    Args:
        name: name of the study.
        settings: resolved settings of the study.
        inputs: input paths: ``rows``, ``curves`` and ``runs``, with one file per block, and ``published`` (CSV), the published
            numbers, if the study compares with any.
        outputs: output paths: ``rows``, ``curves`` (parquet), ``runs`` (JSON), ``selection``, ``published``
            (parquet), ``comparison`` (JSON: selection, gate by data set, primary contrast), ``study`` (YAML, the settings).

    Raises:
        UserError: if the rows lack data that the primary contrast needs, or were made with other settings.
    """
    study: Any = KINDS[settings.get("kind", "images")].model_validate(settings)
    rows = pd.concat(map(load_rows, inputs.rows), ignore_index=True)
    curves = pd.concat(map(read_rows, inputs.curves), ignore_index=True)
    records = [record for path in inputs.runs for record in read_json(path, [RUN])]
    _refuse_other_runs(name, study, records)
    candidates = {objective: list(variants.values()) for objective, variants in study_runs.candidates(study).items()}
    try:
        selection = select(rows, candidates, study.primary.measurement)
        selection["at edge"] = [
            at_edge(variant, candidates[name]) for name, variant in zip(selection["objective"], selection["variant"], strict=True)
        ]
        comparison = {"name": name, "selection": _records(selection), **_comparison(study, rows, selection)}
    except ValueError as error:
        raise UserError(f"primary: {error}") from error
    published = published_numbers(study, inputs.published)
    tables = {outputs.rows: rows, outputs.curves: curves, outputs.selection: selection, outputs.published: published}
    write_tables(tables)
    for path, content in ((outputs.runs, records), (outputs.comparison, comparison)):
        write_text(path, json.dumps(content, indent=1) + "\n")
    write_settings(settings, outputs.study)


def _refuse_other_runs(name: str, study: Any, records: Iterable[Mapping[str, Any]]) -> None:
    """Check that runs were trained and evaluated with the study's settings; for imported files, Snakemake cannot compare them."""
    requested = {(run.dataset, run.objective, run.seed): run.settings for run in study_runs.all_runs(name, study)}
    evaluation = study.evaluation.model_dump(mode="json")
    for record in records:
        settings = record["settings"]
        different = different_settings(settings, requested[record["dataset"], record["objective"], record["seed"]])
        evaluated = record.get("evaluated", {}).get("settings")  # rows of earlier versions lack it
        if evaluated is not None and not same_evaluation(study_runs.training_kind(settings), evaluated, evaluation):
            different.append("evaluation")
        if different:
            found = f"run {record['id']} was made with other settings than the study's ({'; '.join(different)})"
            remedy = f"Restore the settings, or remove results/{name}/manifests to train with the new ones."
            raise UserError(f"{record['dataset']}, {record['objective']}, seed {record['seed']}: {found}. {remedy}")


def at_edge(variant: str, variants: Iterable[str]) -> str:
    """Return the names of the settings at the smallest or largest value of their grid, beyond which a better one may lie.

    Args:
        variant: swept values of the selected variant, as canonical JSON.
        variants: those of all variants of the objective.

    Example:
        >>> at_edge('{"size":8}', ['{"size":8}', '{"size":16}', '{"size":24}'])
        'size'
    """
    chosen, grids = json.loads(variant), [json.loads(one) for one in variants]
    found = []
    for key, value in chosen.items():
        grid = {each[key] for each in grids if type(each[key]) in (int, float)}
        if type(value) in (int, float) and len(grid) > 1 and value in (min(grid), max(grid)):
            found.append(key)
    return ", ".join(found)


def write_settings(settings: Mapping[str, Any], path: str | Path) -> None:
    """Write a study's resolved settings.

    Args:
        settings: settings as plain values.
        path: YAML file to write.
    """
    write_text(path, yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True))


def _comparison(study: Any, rows: pd.DataFrame, selection: pd.DataFrame) -> dict[str, Any]:
    """Compute the gate and the primary contrast on the test split, with the selected variant of each objective."""
    primary, measured, gates = study.primary, study.primary.measurement, []
    dataset, rows = primary.dataset or next(iter(study_runs.datasets(study))), selected(rows, selection)
    shown = {
        (label, objective): variant_name(objective, variant)
        for label, objective, variant in selection[["dataset", "objective", "variant"]].itertuples(index=False)
    }
    for label in study_runs.datasets(study):
        of_dataset = rows[rows["dataset"] == label]
        found = gate(of_dataset, primary.baseline, primary.oracle, _chance(study, of_dataset), measured)
        sentence = verdict(found.iloc[0], measured.metric, shown[label, primary.baseline], shown.get((label, primary.oracle)))
        gates.append(found.assign(verdict=sentence))
    gated = pd.concat(gates, ignore_index=True)
    contrast = primary_contrast(rows, primary.treatment, primary.baseline, measured, dataset, primary.published, gated)
    treatment, baseline = shown[dataset, primary.treatment], shown[dataset, primary.baseline]
    contrast["answer"] = answer(contrast, treatment, baseline, primary.published)
    return {
        "seeds": len(study.seed_list),
        "gate": _records(gated),
        "primary": json.loads(contrast.to_json()),
    }


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON values, with null for NaN."""
    return json.loads(table.to_json(orient="records"))


def _chance(study: Any, rows: pd.DataFrame) -> float:
    """Return the chance level of the primary measurement."""
    measured = study.primary.measurement
    task = next(task for one, task in measured_by(study).items() if one.task == measured.task)
    chance: Any = task.chance(measured)
    if not isinstance(chance, Measurement):
        return chance
    # Chance is averaged because the sizes of the splits vary slightly between seeds.
    return float(chance.rows_of(rows[rows["split"] == "test"])["value"].mean())
