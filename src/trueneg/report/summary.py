"""Select the winners of a tuned study; gather a study's rows, check each data set and answer its
question.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from pandas import DataFrame

from trueneg.config import runs as study_runs
from trueneg.config.equal_temperature import oracle_gains_over
from trueneg.errors import UserError
from trueneg.io.files import write_tables, write_text
from trueneg.report.findings import answer_of, headroom_sentence
from trueneg.report.layouts import with_means
from trueneg.report.published import published_numbers
from trueneg.specs.kinds import kind_of
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.sections import Section
from trueneg.specs.stages import VERSIONS
from trueneg.specs.tasks import is_validated, measured_by
from trueneg.stats.candidates import describe_candidates
from trueneg.stats.comparison import headroom, primary_contrast, selected
from trueneg.stats.crossed import crossed_comparisons
from trueneg.stats.measurement import Measurement
from trueneg.store.identity import different_settings, same_evaluation
from trueneg.store.protocol import precedes
from trueneg.store.records import EvaluatedRun, Record, read_json, read_rows
from trueneg.store.rows import load_rows
from trueneg.store.winners import as_text, chosen, read_winners, select_from


def select_winners(
    paths: Iterable[str | Path],
    settings: Section,
    *,
    winners: str | Path,
    validation: str | Path,
) -> None:
    """Select one candidate of each tuned objective on each data set, from the pilot seeds' rows.

    Args:
        paths: rows of the candidates, one file per block of pilot seeds.
        settings: result of :func:`trueneg.store.winners.selecting`.
        winners: JSON file to write. The same rows give the same bytes, so rewriting it reruns
            nothing.
        validation: parquet file to write with the rows of the validation split; those of the test
            split are not gathered.

    Raises:
        UserError: if a candidate has no validation rows of the measurement.
    """
    content, rows = select_from(pd.concat(map(load_rows, paths), ignore_index=True), settings)
    write_tables({validation: rows})
    write_text(winners, as_text(content))


def summarise_study(
    name: str,
    settings: Section,
    inputs: Any,
    outputs: Any,
    protocol: Mapping[str, str | None] | None = None,
) -> None:
    """Gather the results of a study's blocks of seeds and compare its objectives.

    Args:
        name: name of the study.
        settings: resolved settings of the study.
        inputs: input paths: ``rows``, ``curves`` and ``runs``, with one file per block, and
            ``published`` (CSV), the published numbers, if the study is compared with any; values by
            test sample (``samples``), if its interval covers new samples; if the
            study is tuned, ``winners`` (JSON) and ``pilots``, like ``runs``.
        outputs: output paths: ``rows``, ``curves`` (parquet), ``runs`` (JSON), ``candidates``,
            ``published`` (parquet), ``comparison`` (JSON: selection, headroom by data set, primary
            contrast, protocol), ``study`` (YAML, the settings).
        protocol: the committed protocol (:func:`trueneg.store.protocol.committed_protocol`); None:
            the study has none.

    Raises:
        UserError: if the rows lack data that the primary contrast needs, or were made with
            different settings.
    """
    study: Any = kind_of(settings).model_validate(settings)
    rows = pd.concat(map(load_rows, inputs.rows), ignore_index=True)
    curves = pd.concat(map(read_rows, inputs.curves), ignore_index=True)
    records = [
        record
        for path in (*inputs.runs, *inputs.pilots)
        for record in read_json(path, list[EvaluatedRun])
    ]
    _require_same_settings(name, study, records, inputs.winners)
    try:
        selection, candidates, measured = _selection(study, rows, inputs.winners)
        comparison = {
            "name": name,
            "version": VERSIONS["comparison"],
            "selected by": measured._asdict(),
            "selection": _records(selection),
            **_comparison(study, rows, selection, _crossed(study, rows, inputs.samples)),
        }
    except ValueError as error:
        absent = study.primary.measurement.rows_of(rows).empty
        remedy = (
            " If they were measured earlier, measure them again: snakemake --forcerun evaluate."
            if absent
            else ""
        )
        raise UserError(f"primary: {error}{remedy}") from error
    comparison["protocol"] = protocol and {**protocol, "beforehand": precedes(protocol, records)}
    write_tables(
        {
            outputs.rows: rows,
            outputs.curves: curves,
            outputs.candidates: candidates,
            outputs.published: published_numbers(study, inputs.published),
        }
    )
    for path, content in ((outputs.runs, records), (outputs.comparison, comparison)):
        write_text(path, json.dumps(content, indent=1) + "\n")
    write_settings(settings, outputs.study)


def _selection(
    study: TrainedStudy, rows: DataFrame, winners: str | None
) -> tuple[DataFrame, DataFrame, Measurement]:
    """Return the variant of each objective on each data set that is compared, the candidates of a
    tuned study or else the variants of objectives with several, and the measurement used for these.

    Without winners, the first variant of each objective is compared.
    """
    listed = {name: list(grid.values()) for name, grid in study_runs.variants(study).items()}
    if winners:
        measured, candidates, _ = read_winners(winners)
        # A winners file may also contain other objectives.
        candidates = candidates.merge(rows[["dataset", "objective"]].drop_duplicates())
    else:
        measured = study.selected_by
        shown = study_runs.several(study) if is_validated(study) else ()
        candidates = describe_candidates(rows, {name: listed[name] for name in shown}, measured)
        first = {name: variants[0] for name, variants in listed.items()}
        rows = rows[rows["variant"] == rows["objective"].map(first)]
    compared = rows.groupby(["study", "dataset", "objective", "variant"], sort=False)["seed"]
    grids = dict(list(candidates.groupby(["dataset", "objective"])))
    followed = study_runs.followed(study)
    entries = []
    for entry in compared.nunique().reset_index(name="seeds").to_dict("records"):
        objective = entry["objective"]
        grid = grids.get((entry["dataset"], objective), candidates.iloc[:0])
        winner = next(iter(grid[grid["chosen"]].to_dict("records")), entry)
        if entry["variant"] != winner["variant"]:
            raise ValueError(
                f"rows of {objective} on {entry['dataset']} are not from its winner,"
                f" {winner['variant']}; train it again"
            )
        entries.append(
            entry
            | {
                "candidates": max(len(grid), 1) if winners else len(listed[objective]),
                "seeds": winner["seeds"],
                "validation mean": winner.get("mean"),
                "at edge": at_edge(entry["variant"], grid["variant"]) if winners else "",
                "tied": list(grid.loc[grid["tied"].astype(bool), "variant"]),
                "variants": list(grid["variant"]) if winners else [],
                "follows": followed.get(objective),
            }
        )
    return DataFrame(entries), candidates, measured


def _require_same_settings(
    name: str, study: TrainedStudy, records: Iterable[Record], winners: Any
) -> None:
    """Check that runs were trained and evaluated with the study's settings; for imported files,
    Snakemake cannot do so.
    """
    requested: dict[tuple[str, str, int], Any] = {}
    for job in study_runs.jobs(name, study):
        runs = (
            [run.to_json() for run in job.runs]
            if job.family is None
            else chosen(job.to_json(), winners)[1]
        )
        requested |= {
            (run["dataset"], run["objective"], run["seed"]): run["settings"] for run in runs
        }
    evaluation = study.evaluation.model_dump(mode="json")
    for record in records:
        settings = record["settings"]
        different = different_settings(
            settings, requested[record["dataset"], record["objective"], record["seed"]]
        )
        if not same_evaluation(kind_of(settings), record["evaluated"]["settings"], evaluation):
            different.append("evaluation")
        if different:
            raise UserError(
                f"{record['dataset']}, {record['objective']}, seed {record['seed']}: run"
                f" {record['id']} was made with settings other than the study's"
                f" ({'; '.join(different)}). Restore the settings, or remove"
                f" results/{name}/manifests to train with the new ones."
            )


def at_edge(variant: str, variants: Iterable[str]) -> str:
    """Return the names of the settings at the smallest or largest value of their grid, beyond which
    a better one may lie.

    Args:
        variant: swept values of the selected variant, as canonical JSON.
        variants: those of all variants of the objective.

    Example:
        >>> at_edge('{"size":8}', ['{"size":8}', '{"size":16}', '{"size":24}'])
        'size'
    """
    grids = [json.loads(other) for other in variants]
    keys = []
    for key, value in json.loads(variant).items():
        grid = {settings[key] for settings in grids if type(settings[key]) in (int, float)}
        if type(value) in (int, float) and len(grid) > 1 and value in (min(grid), max(grid)):
            keys.append(key)
    return ", ".join(keys)


def write_settings(settings: Section, path: str | Path) -> None:
    """Write a study's resolved settings.

    Args:
        settings: settings as plain values.
        path: YAML file to write.
    """
    write_text(path, yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True))


def _crossed(study: TrainedStudy, rows: DataFrame, samples: Sequence[str]) -> DataFrame | None:
    """Compare the objectives over runs and samples, given the files with the values by sample.

    Raises:
        UserError: if these are not the values whose means are in the rows.
    """
    if not samples:
        return None
    values = pd.concat(map(read_rows, samples), ignore_index=True)
    keys = ["dataset", "objective", "seed"]
    means = values.groupby(keys)["value"].agg(["mean", "size", "max"]).reset_index()
    measured = study.primary.measurement.rows_of(rows[rows["split"] == "test"])
    both = measured.merge(means, on=keys)
    # On another machine, rounding may change the values of a few samples.
    few = (2 / both["size"]).clip(lower=0.01) * both["max"]
    is_other = (both["value"] - both["mean"]).abs() > few
    if is_other.any():
        raise UserError(
            "The values by test sample are not those of the rows, first of objective"
            f" {both[is_other].iloc[0]['objective']}. Measure both again: snakemake --forcerun"
            " evaluate samples."
        )
    return crossed_comparisons(values, study.primary.margin)


def _comparison(
    study: TrainedStudy, rows: DataFrame, selection: DataFrame, crossed: DataFrame | None
) -> dict[str, Any]:
    """Compute the headroom and the primary contrast on the test split, with the selected variant of
    each objective.
    """
    primary = study.primary
    measured = primary.measurement
    datasets = list(study_runs.datasets(study))
    dataset = primary.dataset or datasets[0]
    rows = selected(rows, selection)
    parts = []
    for label in datasets:
        of_dataset = rows[rows["dataset"] == label]
        chance, about_chance = _chance(study, of_dataset)
        labelled = headroom(of_dataset, primary.baseline, primary.oracle, chance, measured)
        sentence = headroom_sentence(
            labelled.iloc[0], measured.metric, primary.baseline, primary.oracle, about_chance
        )
        parts.append(labelled.assign(sentence=sentence))
    sides = (primary.treatment, primary.baseline)
    of_dataset = selection[selection["dataset"] == dataset]
    variants = dict(zip(of_dataset["objective"], of_dataset["variant"], strict=True))
    contrast = primary_contrast(
        rows,
        *sides,
        measured,
        dataset,
        primary.margin,
        primary.oracle,
        crossed,
        oracle_gains_over(study, variants),
    )
    tested = with_means(rows[rows["split"] == "test"])
    sentences = answer_of(study, tested, dataset, _records(selection), crossed)
    contrast["answer"] = " ".join(sentences)
    return {
        "seeds": len(study.seed_list),
        "headroom": _records(pd.concat(parts, ignore_index=True)),
        "primary": json.loads(contrast.to_json()),
        "crossed": [] if crossed is None else _records(crossed),
    }


def _records(table: DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON values, with null for NaN."""
    return json.loads(table.to_json(orient="records"))


def _chance(study: TrainedStudy, rows: DataFrame) -> tuple[float, str]:
    """Return the chance level of the primary measurement, and what it is, in brackets."""
    measured = study.primary.measurement
    task = next(task for key, task in measured_by(study).items() if key.task == measured.task)
    chance: Any = task.chance(measured)
    if not isinstance(chance, Mapping):
        return chance, ""
    # Chance is averaged because the sizes of the splits vary slightly between seeds.
    test = rows[rows["split"] == "test"]
    levels = [
        (level.rows_of(test)["value"].mean(), what and f" ({what})")
        for level, what in chance.items()
    ]
    return next((level for level in levels if pd.notna(level[0])), levels[-1])
