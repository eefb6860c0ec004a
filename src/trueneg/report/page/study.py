"""Assemble a study's page content from its artefacts and figures."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.config.runs import shown_examples
from trueneg.data.user_files import DataChanges
from trueneg.legible import counted, duration
from trueneg.report import known_data, registry
from trueneg.report.advice import advice
from trueneg.report.claims import claim
from trueneg.report.findings import FEW_SEEDS, answer_of, sentence
from trueneg.report.gathered import Gathered
from trueneg.report.layouts import compared_rows
from trueneg.report.methods import of_methods
from trueneg.report.page.examples import examples_of, suspects_of
from trueneg.report.page.provenance import Provenance, flat, together
from trueneg.report.tables.building import headroom_remarks
from trueneg.specs.encoders import is_frozen
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.objectives.released import NOT_TRAINED
from trueneg.stats.comparison import seeds_to_detect
from trueneg.store import records, versions
from trueneg.store.run_store import RunStore

# kind of mark by the first word
OUTCOMES = {"better": "better", "worse": "worse", "equivalent": "even", "undecided": "unsure"}


def study_page(folder: Path) -> dict[str, Any]:
    """Return the content of a study's section of the page.

    Args:
        folder: folder with the study's artefacts; the figures are in the sibling folder
            ``figures``.

    Returns:
        ``name`` (from the configuration; also the anchor on the page and the study's folder),
            ``title``, ``question``; ``finding`` (the answer in two sentences, or what a study
            without an answer measures) and ``facts`` (further sentences of the answer);
            sentences: ``headroom`` (one per data set), ``data`` (on the data and every η) and
            ``warnings`` (caveats); ``marks``, badges for the outcome and the caveats, as (kind,
            text); ``figures`` (title, caption and PNG of each; the PDF is beside it, and the
            description in the PNG becomes the alternative text), ``headline`` (index of the figure
            that is shown first) and ``tables`` (title, caption and content of each), in page order;
            ``config`` (YAML); ``provenance`` of the numbers; ``suspects`` (pairs of training
            samples) and ``examples`` of retrieval.
    """
    gathered = Gathered(folder)
    figures = folder.parent / "figures"
    study = gathered.study
    changes = DataChanges(folder.parents[1])
    is_trained = isinstance(study, TrainedStudy)
    comparison, runs = (gathered.comparison, _runs(gathered, changes)) if is_trained else ({}, [])
    restricted = any(
        getattr(getattr(study, part, None), "restricted", False) for part in ("dataset", "reports")
    )
    stated = _stated(gathered) if is_trained else {}
    marks, warnings = _remarks(gathered, stated, runs, changes, restricted)
    # Not those of earlier versions, nor of networks without training.
    described = [run for run in runs if "false_negatives" in run and _is_trained(run)]
    facts = [
        (run["dataset"], run["objective"], run["false_negatives"])
        for run in described
        if run["seed"] == described[0]["seed"]  # other seeds differ slightly, if at all
    ]
    about_data, warned = known_data.sentences(facts, gathered.baseline if is_trained else "")
    pictures = [
        (drawing, png)
        for name, drawing in registry.figures_by_name(study).items()
        if (png := figures / f"{name}.png").is_file()
    ]
    return {
        "name": folder.parent.name,
        "title": study.title,
        "question": study.question,
        "finding": sentence(gathered),
        "facts": _facts(gathered, stated, runs) if is_trained else [],
        "headroom": [
            f"{entry['dataset']}: {entry['sentence']}" for entry in comparison.get("headroom", ())
        ],
        "data": about_data,
        "warnings": [*warnings, *(f"{sentence}." for sentence in warned)],
        "marks": marks,
        # The footnote is already part of the image.
        "figures": [(drawing.title, drawing.caption, png) for drawing, png in pictures],
        "headline": next(
            (index for index, (drawing, _) in enumerate(pictures) if drawing.headline), 0
        ),
        "tables": [
            (each.title, each.caption, each.made(gathered))
            for each in registry.tables_by_name(study).values()
        ],
        "config": (folder / "study.yaml").read_text(),
        "provenance": Provenance(runs, gathered.settings, folder),
        "suspects": suspects_of(folder / f"suspects/{gathered.dataset}.parquet", restricted)
        if is_trained
        else [],
        "examples": examples_of(
            folder,
            shown_examples(study) if getattr(study, "has_examples", False) else [],
            restricted,
        ),
    }


def _stated(gathered: Gathered) -> Any:
    """Return the comparison that a trained study's answer states: that of
    :func:`trueneg.report.claims.claim`.
    """
    comparison = gathered.comparison
    return claim(
        gathered.study,
        compared_rows(gathered),
        comparison["primary"]["dataset"],
        comparison["selection"],
        gathered.crossed,
    ).row


def _facts(
    gathered: Gathered, stated: Mapping[str, Any], runs: Sequence[records.Record]
) -> list[str]:
    """State what the answer rests on, what seeds would cost that decide an undecided contrast, and
    how to export the advised objective's encoder, or to train a final one.

    The run of the objective (:func:`trueneg.report.advice.advise`) that is best on the validation
    split is exported, if its weights are here.

    Args:
        gathered: a trained study.
        stated: the comparison that the answer states.
        runs: records of its runs.
    """
    advised = advice(gathered)
    _, *further = answer_of(
        gathered.study,
        compared_rows(gathered),
        gathered.comparison["primary"]["dataset"],
        gathered.comparison["selection"],
        gathered.crossed,
    )
    sentences = [*of_methods(gathered), *further]
    sentences += [*_seeds_to_decide(gathered, stated, runs), *_of_heads(runs)]
    rows = gathered.primary.rows_of(gathered.rows.query("split == 'validation'"))
    rows = rows[(rows["dataset"] == gathered.dataset) & (rows["objective"] == advised.name)]
    if rows.empty:
        return sentences
    best = rows.sort_values("value").iloc[-1]
    if RunStore(gathered.folder.parents[1] / "runs").state(best["run"]) == "finished":
        sentences.append(
            f"To export its best encoder on the validation split, of seed {best['seed']}: trueneg"
            f" export {best['run']} exported; to train {advised.name} on all samples: trueneg refit"
            f" {gathered.folder.parent.name} final"
        )
    return sentences


def _of_heads(runs: Sequence[records.Record]) -> list[str]:
    """State that the answer is that of heads on frozen networks, if it is."""
    trained = [run["settings"] for run in runs if _is_trained(run)]
    parts = ("encoder", "text_encoder", "positive_encoder")
    encoders = [each[part] for each in trained for part in parts if each.get(part)]
    if not encoders or not all(map(is_frozen, encoders)):
        return []
    return [
        "Only a head was trained, on frozen networks: where their layers are trained, too, measure"
        " again (for texts: trueneg init text TABLE --train all)."
    ]


def _seeds_to_decide(
    gathered: Gathered, contrast: Mapping[str, Any], runs: Sequence[records.Record]
) -> list[str]:
    """State what seeds would decide an undecided contrast, and what they would cost."""
    seconds = [run["seconds"] for run in runs if _is_trained(run)]
    if contrast["outcome"] != "undecided":
        return []
    if gathered.crossed is not None:
        return [
            "More seeds alone need not decide it: the interval also covers the choice of test"
            " samples."
        ]
    if pd.isna(contrast["minimum detectable"]) or not seconds:
        return []
    needed = seeds_to_detect(contrast["difference"], contrast["standard deviation"])
    if needed is None:
        return [
            "If the true difference is the measured one, detecting it takes more than 1,000 seeds."
        ]
    objectives = gathered.study.objectives.values()
    count = needed * sum(objective.name not in NOT_TRAINED for objective in objectives)
    return [
        f"If the true difference is the measured one, {needed:,} seeds detect it with a power of"
        " 80 %. They must be new ones, since adding to these would invalidate the test:"
        f" {count:,} runs, about {duration(count * sum(seconds) / len(seconds))} of training."
    ]


def _is_trained(run: records.Record) -> bool:
    return run["settings"]["objective"]["name"] not in NOT_TRAINED


def _runs(gathered: Gathered, changes: DataChanges) -> list[dict[str, Any]]:
    """Return each run's record with its ``state`` and, as text, its settings by dotted name
    (``configuration``) and its provenance (``made``).
    """
    runs = records.read_json(gathered.folder / "runs.json", list[records.RunRecord])
    store = RunStore(gathered.folder.parents[1] / "runs")
    for record in runs:
        machine = record["machine"]
        source = record["source"]
        state = store.marked(record["id"], versions.code_state(record))
        cpu = machine.get("cpu", "CPU unknown")
        libraries = (f"{name} {version}" for name, version in record["versions"].items())
        record["state"] = changes.state(record, state)
        record["configuration"] = flat(record["settings"])
        record["made"] = {
            "Commit": re.sub("^([0-9a-f]{12})[0-9a-f]*", r"\1", record["commit"]),
            "Code": versions.summary(record["code"]["versions"]),
            "Data": f"{source['name']} {source['checksum'][:16]}",
            "Device": f"{record['device']}, threads: {record.get('threads', '–')}",
            "Machine": f"{machine['system']}, {machine.get('cores', '–')} cores, {cpu}",
            "Libraries": ", ".join(libraries),
        }
    return runs


def _remarks(
    gathered: Gathered,
    stated: Mapping[str, Any],
    runs: Sequence[records.Record],
    changes: DataChanges,
    restricted: bool,
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the marks (the outcome and any caveats) and the warnings (the caveats as
    sentences).
    """
    is_trained = isinstance(gathered.study, TrainedStudy)
    outcome = stated["outcome"] if is_trained else ""
    treatment = gathered.study.primary.treatment if is_trained else ""
    remarks = headroom_remarks(gathered.headroom) if is_trained else {}
    seeds = gathered.comparison["seeds"] if is_trained else FEW_SEEDS
    is_small = seeds < FEW_SEEDS
    stale = sum(run["state"].startswith("stale") for run in runs)
    changed = Counter(filter(None, map(changes.of_run, runs)))
    note = gathered.study.note
    total = counted(len(runs), "run")
    sources = [run["source"] for run in runs]
    said = {
        f"{each['name']}: {each[key]}"
        for each in sources
        for key in ("skipped", "leakage")
        if key in each
    }
    near = {each["name"]: each["near"] for each in sources if "near" in each}  # of one seed
    said |= {f"{name}: {remark}" for name, remark in near.items()}
    is_allowed = getattr(getattr(gathered.study, "dataset", None), "leakage", None) == "allow"
    allows = is_allowed and not any("leakage" in each for each in sources)
    machines = [record["machine"] for run in runs for record in (run, run.get("evaluated", run))]
    cpus = {machine["cpu"] for machine in machines if "cpu" in machine}
    marks = [
        (OUTCOMES.get(outcome.split(" ")[0], ""), outcome, f"{treatment}: {outcome}"),
        *(
            ("headroom", remark, remark if len(gathered.headroom) == 1 else f"{remark}: {dataset}")
            for dataset, remark in remarks.items()
        ),
        ("few", is_small, f"too few seeds: {seeds}"),
        ("stale", stale, f"stale: {stale:,} of {len(runs):,} runs"),
        ("changed", changed, f"data changed: {changed.total():,} of {len(runs):,} runs"),
        ("changed", changes.of_reports(gathered.folder.parent.name), "data changed"),
        ("restricted", restricted, "restricted: numbers only"),
    ]
    warnings = [
        (note, note),
        (stale, f"{stale} of {total} stale: a VERSION was raised after they were made."),
        *((count, f"{count} of {total}: {change}.") for change, count in changed.items()),
        *((text, text) for text in sorted(said)),
        (allows, "Samples that the data's own splits share are allowed (dataset.leakage)."),
        (
            len(cpus) > 1,
            f"CPUs of several types ({together(sorted(cpus))}): a run's numbers differ slightly"
            " between them.",
        ),
        (
            is_small,
            f"{counted(seeds, 'seed')}: too few to distinguish an effect from"
            " noise; use 8 or more.",
        ),
    ]
    shown = [(kind, text) for kind, applies, text in marks if applies]
    return shown, [text for applies, text in warnings if applies]
