"""Results folders of synthetic studies, and their pages."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from tests.report import synthetic, synthetic_pairs
from tests.studies import tiny_words
from trueneg.config import runs
from trueneg.evaluation.retrieval_examples import COLUMNS
from trueneg.evaluation.thumbnails import thumbnail
from trueneg.io import privacy
from trueneg.report.build import write_page
from trueneg.report.page.examples import NO_EXAMPLES
from trueneg.report.page.provenance import Provenance
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.specs.kinds.pairs import ImageTextStudy
from trueneg.store import versions

OBJECTIVES = ("CL", "DCL-LM", "Oracle")
STALE = 0  # a version before the current one
SECONDS = 10.5


def record(run, number, **changes):
    """The record of a run."""
    values = {
        **run.to_json(),
        "id": f"{number:012x}",
        "source": {"name": "phantom", "checksum": "7e3f" * 16},
        "data": "7e3f" * 16,
        "images": 1800,
        "code": {"versions": versions.training_versions(run.settings)},
        "versions": {"python": "3.11.7", "torch": "2.15.0", "numpy": "2.4.6"},
        "commit": "8a226e2ecca847cb29f98e8f19c4ed5ef5927b70",
        "machine": {"host": "here", "system": "Linux-6.18-x86_64", "cores": 2},
        "device": "cpu",
        "threads": 1,
        "seconds": SECONDS,
        "gpu_seconds": 0.0,
        "attempts": [],
        "finished": f"2026-11-21 18:{number % 60:02}:00 +0000",
    }
    return values | changes


def add_study(
    results: Path, name: str = "phantom", seeds: int | None = None, **changes
) -> ImageTextStudy:
    """Add an image–text study with a stale run; `seeds` is the number of recorded runs per
    objective, independent of the rows.
    """
    settings = synthetic_pairs.settings(note="Small default: a synthetic study.", **changes)
    folder = results / name / "artefacts"
    synthetic_pairs.write(folder, settings)
    study = ImageTextStudy.model_validate(settings | ({} if seeds is None else {"seeds": seeds}))
    (folder / "study.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    records = [record(run, number) for number, run in enumerate(runs.all_runs(name, study))]
    records[0]["code"]["versions"]["training/image-text"] = STALE
    (folder / "runs.json").write_text(json.dumps(records))
    if seeds is not None:
        synthetic_pairs.curves(study).to_parquet(folder / "curves.parquet")
    return study


def add_examples(
    results: Path,
    name: str = "phantom",
    restricted: bool = False,
    text: str = "Small left effusion.",
) -> None:
    """Add retrieval examples: two queries per direction with five results, which differ between
    objectives.
    """
    generator = np.random.default_rng(0)
    pictures = [
        thumbnail(generator.integers(0, 255, (1, 32, 32), dtype=np.uint8)) for _ in range(12)
    ]
    for place, objective in enumerate(OBJECTIVES):
        rows = []
        for direction in ("text to image", "image to text"):
            for query in range(2):
                for rank in range(1, 6):
                    question, result = f"{text} {query}", (query + rank + 3 * place) % 12
                    pair = (
                        (question, result)
                        if direction == "text to image"
                        else (f"{text} {result}", query)
                    )
                    relation = ("own pair", "true of the image", "not true of the image")[rank % 3]
                    rows.append(
                        (
                            direction,
                            query,
                            *pair,
                            rank,
                            1 / rank,
                            relation,
                            2 + place,
                            pictures[pair[1]],
                        )
                    )
        table = pd.DataFrame(rows, columns=COLUMNS).assign(
            dataset="phantom", objective=objective, seed=0
        )
        path = results / name / "artefacts" / "retrieval" / "phantom" / f"{objective}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        privacy.write_table(table, path, restricted)


def add_theory(results: Path) -> None:
    """Add a theory study, which has no runs."""
    folder = results / "theory" / "artefacts"
    (folder / "simulation").mkdir(parents=True)
    (folder / "study.yaml").write_text(yaml.safe_dump({"kind": "theory", "title": "Theory"}))
    pd.DataFrame({"value": [1.0]}).to_parquet(folder / "simulation" / "numbers.parquet")


def add_likelihoods(results: Path, name: str = "words") -> None:
    """Add a likelihood study with a language model trained for one of two folds, and a released
    one.
    """
    folder = results / name / "artefacts"
    (folder / "assumption" / "phantom").mkdir(parents=True)
    settings = LikelihoodStudy.model_validate(tiny_words()).model_dump(mode="json")
    (folder / "study.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    for kind, table in zip(
        ("points", "summary", "calibration"), synthetic.likelihoods(), strict=True
    ):
        table.to_parquet(folder / "assumption" / "phantom" / f"{kind}.parquet")
    manifests, trained = (
        results / name / "text" / "phantom" / "language_models",
        results / "language_models" / "abcdef",
    )
    manifests.mkdir(parents=True)
    trained.mkdir(parents=True)
    models = [
        {"fold": fold, "folder": f"language_models/{place}", "checksum": "7e3f" * 16}
        for fold, place in enumerate(("abcdef", "gone"))
    ]
    released = [{"fold": 0, "folder": "organisation/model", "checksum": None}]
    for manifest, listed in (("BERT", models), ("released", released)):
        (manifests / f"{manifest}.json").write_text(
            json.dumps({"folds": len(listed), "models": listed})
        )
    record = {
        "id": "abcdef",
        "seed": 0,
        "code": {"versions": {"language_model": STALE}},
        "commit": "8a226e2ecca847cb29f98e8f19c4ed5ef5927b70",
    }
    record |= {
        "machine": {"host": "here", "system": "Linux"},
        "versions": {"torch": "2.15.0"},
        "attempts": [],
    }
    (trained / "run.json").write_text(json.dumps(record | {"device": "cuda", "seconds": 150.0}))


def section(name: str, title: str, **content) -> dict:
    """The content of a study's section of the page, empty where it is not given."""
    empty = dict.fromkeys(("question", "finding", "config"), "")
    lists = ("facts", "headroom", "data", "warnings", "marks", "figures", "tables", "suspects")
    empty |= {name: [] for name in lists}
    empty |= {"headline": 0, "provenance": Provenance(), "examples": NO_EXAMPLES}
    return {"name": name, "title": title, **empty, **content}


def page_of(results: Path) -> Path:
    """Write the page of all studies in the folder."""
    write_page(results / "index.html")
    return results / "index.html"
