"""Export a run with a model card: what it was trained on, what its study measured, and how to load
it.
"""

import pkgutil
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from trueneg.cli.planned_data import prepared_data
from trueneg.data.user_files import DataChanges
from trueneg.io.files import write_text
from trueneg.io.privacy import owner_only
from trueneg.legible import escape_control_characters
from trueneg.report.gathered import Gathered
from trueneg.report.layouts import compared_rows
from trueneg.report.metrics import full_name, with_interval
from trueneg.specs.kinds import kind_of
from trueneg.stats.comparison import means, primary_contrast
from trueneg.store.data_input import NO_IMAGES
from trueneg.store.records import Record, RunRecord, UserFilesRecord, read_json
from trueneg.store.run_store import RunStore
from trueneg.training.export import export_run, finished_run

CARD = string.Template("""---
library_name: $library
pipeline_tag: $task
license: other
tags: [contrastive-learning, trueneg]
---

# $objective, trained on $dataset

$licence

## Load

```python
$load
```

## Data

$data

## Method

`$objective` of the study `$study` with seed $seed, trained with TrueNeg (run `$id`). Settings of
the data are in `encoder.json`; these are the others, and the most important versions:

```yaml
$settings```

## Measured on held-out data

$measured

## Limits

- What was measured holds for samples like those of the study. Compare on samples of your own.
- An encoder may reveal some of the data that it was trained on.
$limits""")
LOAD = {
    "sentence-transformers": """from sentence_transformers import SentenceTransformer

encoder = SentenceTransformer("path/of/this/folder")
vectors = encoder.encode(["a text", "another text"])"""
}
LOAD_OTHER = """import runpy

encoder = runpy.run_path("path/of/this/folder/load.py")["load"]()"""


def export(run: str, folder: Path, results: Path) -> None:
    """Write the encoders of a finished run, each with a model card.

    Args:
        run, folder, results: as for :func:`trueneg.training.export.export_run`.
    """
    store = RunStore(results / "runs")
    record = store.record(finished_run(run, store), RunRecord)
    facts = {"data": trained_on(record, results), "measured": measured(record, results)}
    export_run(record["id"], folder, results, facts)
    with owner_only(True):
        for part in folder.iterdir():
            write_text(part / "README.md", card(read_json(part / "encoder.json"), part.name))


def trained_on(record: Record, results: Path) -> dict[str, Any]:
    """Return what is known of a run's data: files with their checksums, numbers of samples, and of
    training samples by label.
    """
    kind = kind_of(record["settings"])
    dataset = record["settings"]["dataset"]
    path = results / f"{kind.data_place(dataset)}.npz"
    facts = {"samples": record["images"], "changes": DataChanges(results).of_run(record)}
    if (files := path.with_suffix(".files.json")).is_file():
        read = read_json(files, UserFilesRecord)
        checksums = {Path(name).name: of["checksum"] for name, of in read["files"].items()}
        if read["images"]["stamp"] != NO_IMAGES:
            checksums["all images (digest)"] = read["images"]["checksum"] or "too large"
        facts["files"] = checksums
    if facts["changes"] or not path.is_file():
        return facts
    source, official = prepared_data(kind, path)
    subset = pkgutil.resolve_name(kind.SPLITTER)(source, dataset, record["seed"], official)
    labels = source.labels
    facts["all"] = len(labels)
    facts["left out"] = " ".join(filter(None, (source.skipped, subset.left_out, subset.leakage)))
    if getattr(source, "restricted", False) or len(subset.train) != record["images"]:
        return facts
    names = getattr(source, "class_names", None) or source.label_names
    is_of_label = labels if labels.ndim == 2 else labels[:, None] == np.arange(len(names))
    counts = (is_of_label[subset.train] == 1).sum(0).tolist()
    facts["labels"] = dict(zip(names, counts, strict=True))
    return facts


def measured(record: Record, results: Path) -> dict[str, Any]:
    """Return what a run's study measured on its test split, over all seeds of the run's method;
    empty if it did not.
    """
    folder = results / record["study"] / "artefacts"
    if not (folder / "comparison.json").is_file():
        return {}
    gathered = Gathered(folder)
    primary = gathered.primary
    rows = compared_rows(gathered)
    rows = rows[rows["dataset"] == gathered.dataset]
    name = next(iter(rows.loc[rows["run"] == record["id"], "objective"]), record["objective"])
    others = (name, gathered.baseline, gathered.study.first_baseline)
    shown = [each for each in dict.fromkeys(others) if each in {*rows["objective"]}]
    if name not in shown:
        return {}
    table = means(primary.rows_of(rows)).set_index("objective")

    def score(row: pd.Series, of: str) -> dict[str, Any]:
        value, low, high = row[[of, "low", "high"]]
        text = with_interval(value, low, high, primary.metric, signed=of == "difference")
        return {"value": value, "text": text}

    scores = {each: score(table.loc[each], "mean") for each in shown}
    for other in shown[1:]:
        row = primary_contrast(
            rows, name, other, primary, gathered.dataset, crossed=gathered.crossed
        )
        scores[f"{name} − {other}"] = score(row, "difference")
    return {
        "measurement": full_name(primary),
        "seeds": int(table["seeds"][name]),
        "differences over": gathered.study.primary.over,
        "scores": scores,
    }


def card(about: Mapping[str, Any], part: str) -> str:
    """Return a model card in the format of Hugging Face's hub.

    Args:
        about: the description of the encoder, the content of encoder.json.
        part: what it embeds, the name of its folder.
    """
    library = next(iter(about["libraries"]))
    limit = about["maximum tokens"]
    is_final = about["settings"]["dataset"].get("test") == 0
    settings = {key: values for key, values in about["settings"].items() if key != "dataset"}
    settings["versions"] = about["libraries"] | {"trueneg": about["versions"].get("trueneg")}
    return CARD.substitute(
        about,
        library=library if library in LOAD else "pytorch",
        task="image-feature-extraction" if part == "image" else "sentence-similarity",
        load=LOAD.get(library, LOAD_OTHER),
        data="\n".join(_about_data(about["data"])),
        settings=yaml.safe_dump(settings, sort_keys=False),
        measured="\n".join(_about_scores(about["measured"], is_final)),
        limits=f"- Texts of more than {limit} tokens are truncated.\n" if limit else "",
    )


def _about_data(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about the data."""
    whole = f" of {data['all']:,}" if "all" in data else ""
    sentences = (data.get("left out"), data["changes"] and f"Since then: {data['changes']}.")
    yield " ".join(filter(None, (f"Trained on {data['samples']:,}{whole} samples.", *sentences)))
    if unused := [name for name, count in data.get("labels", {}).items() if not count]:
        yield f"Labels that it was not trained on: {escape_control_characters(', '.join(unused))}."
    for title, key in (("file | SHA-256", "files"), ("label | training samples", "labels")):
        if values := data.get(key):
            yield f"\n| {title} |\n|---|---|"
            for name, value in values.items():
                cell = escape_control_characters(name).replace("|", "&#124;")
                yield f"| {cell} | {value} |"


def _about_scores(found: Mapping[str, Any], is_final: bool) -> Iterator[str]:
    """Yield lines about what the study measured, and with which models."""
    if is_final:
        yield "**This model was evaluated on nothing**, because it was trained on all samples."
    if not found:
        yield "The study has no results of this method."
        return
    whose = "models that were trained on less data" if is_final else "models like this one"
    yield (
        f"The study measured {whose}, with {found['seeds']} seeds. Intervals (95 %) are over"
        f" runs; those of differences over {found['differences over']}."
    )
    yield f"\n| | {found['measurement']} |\n|---|---|"
    for name, score in found["scores"].items():
        yield f"| {name} | {score['text']} |"
