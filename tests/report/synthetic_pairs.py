"""Artefacts of a small image–text study with known effects."""

import itertools
import json

import numpy as np
import pandas as pd
import yaml
from tests.projects import ROOT

from trueneg.config import runs
from trueneg.report.declared import published_name
from trueneg.report.findings import answer, headroom_sentence
from trueneg.report.labels import variant_name
from trueneg.report.published import published_numbers
from trueneg.specs.kinds.pairs import ImageTextStudy
from trueneg.stats.candidates import describe_candidates
from trueneg.stats.comparison import headroom, primary_contrast, selected
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import to_table

CLASSES = ("cardiomegaly", "edema", "effusion", "pneumonia", "pneumothorax")
GAINS = {
    "CL": 0.0,
    "DCL": 0.01,
    "DCL-LM": 0.03,
    "DCL-true": 0.035,
    "ReCo": -0.01,
    "same": 0.02,
    "Oracle": 0.06,
}
GAINS |= {"DCL-50": 0.02, "DCL-0": -0.01, "HCL-50": 0.01}
CONSTANTS = (0.01, 0.05, 0.1, 0.2)
PUBLISHED = [
    {"paper": "sample-specific-debiasing", "tables": ["Table 1", "Table 3"]}
    | {
        "methods": {
            "CL": "LSE+NL",
            "DCL,class_probability=0.1": "DCL eta=0.1",
            "DCL-LM": "DCL eta_LM",
        }
    },
    {"paper": "relaxing-contrastiveness", "tables": ["Table 1"], "methods": {"CL": "InfoNCE"}},
    {"paper": "relaxing-contrastiveness", "tables": ["Table 3"], "methods": {"CL": "CLIP-ZS"}},
]
PRINTED = [
    published_name(paper["paper"], table) for paper in PUBLISHED for table in paper["tables"]
]
PRIMARY = {"task": "zero-shot", "metric": "AUC"}
MEASURED = Measurement(**PRIMARY)


def settings(**changes):
    """Settings of a study as in a configuration file; `changes` replaces sections."""
    base = {
        "kind": "image-text",
        "title": "A small phantom",
        "question": "Does it help?",
        "dataset": {"source": "phantom", "text": "reports"},
        "encoder": {"name": "small"},
        "text_encoder": {"name": "small"},
        "training": {"epochs": 2},
        "sweeps": "one at a time",
        "objectives": {
            "CL": {"name": "cl"},
            "DCL": {"name": "dcl", "class_probability": list(CONSTANTS)},
            "DCL-LM": {"name": "dcl", "class_probability": "language model"},
            "DCL-true": {"name": "dcl", "class_probability": "true"},
            "ReCo": {"name": "reco"},
            "same": {"name": "same_sentence"},
            "Oracle": {"name": "oracle"},
        },
        "seeds": 6,
        "primary": {
            **PRIMARY,
            "treatment": "DCL-LM",
            "baseline": "CL",
            "oracle": "Oracle",
            "published": 0.07,
        },
        "figures": {
            "overlays": {"objectives": ["CL", "DCL-LM", "Oracle"], "phrases": 4},
            "similarities": {"objectives": ["CL", "DCL,class_probability=0.1", "DCL-LM", "ReCo"]},
        },
    }
    return base | changes


def study(**changes):
    """The resolved study."""
    return ImageTextStudy.model_validate(settings(**changes))


def measurements():
    """Yield each measurement with its level and the effect of an objective's gain on it."""
    for number, name in enumerate((None, *CLASSES)):
        yield Measurement("zero-shot", "AUC", group=name), 0.72 + 0.03 * number, 1.0
        yield Measurement("zero-shot", "ACC", group=name), 0.62 + 0.03 * number, 0.8
        yield Measurement("zero-shot", "AUC positive prompt", group=name), 0.70 + 0.03 * number, 0.9
        for fraction in (0.01, 0.1, 1.0):
            measured = Measurement("linear probe", "AUC", fraction=fraction, group=name)
            yield measured, 0.8 + 0.05 * fraction + 0.01 * number, 0.4
    for task, labels, lift in (
        ("retrieval sentence", "report", 0.0),
        ("retrieval sentence", "truth", 0.1),
        ("retrieval report", "report", 0.05),
    ):
        of = Measurement(task, "R", labels)
        for way, more in (("text to image", 0.0), ("image to text", 0.02)):
            for k in (1, 5, 10):
                yield of._replace(direction=way, k=k), 0.03 + 0.02 * k + lift + more, 0.8
            yield of._replace(metric="MedR", direction=way), 60 - 100 * lift - 50 * more, -200.0
        yield of, 0.13 + lift, 0.8
        yield of._replace(metric="MedR"), 60 - 100 * lift, -200.0
    for number, name in enumerate((None, "macro", *CLASSES)):
        yield Measurement("grounding", "CNR", group=name), 0.9 + 0.05 * number, 3.0
        yield Measurement("grounding", "CNR signed", group=name), 0.7 + 0.05 * number, 3.0
        yield Measurement("grounding", "mIoU", group=name), 0.17, 0.5
    yield Measurement("grounding", "phrases"), 212, 0.0


def variants(of):
    """Map each label of a study to its objective and variant."""
    return {
        label: (name, variant)
        for name, labels in runs.variants(of).items()
        for label, variant in labels.items()
    }


def run_ids(of, datasets):
    """Ids of runs by data set, label and seed, numbered in the order of the study's expansion."""
    places = itertools.product(datasets, runs.objectives(of), of.seed_list)
    return {place: f"{number:012x}" for number, place in enumerate(places)}


def values_of(rows, label, measured, dataset="phantom"):
    """Values on the test split by seed; `label` is the full name of the variant."""
    chosen = measured.rows_of(rows[(rows["split"] == "test") & (rows["dataset"] == dataset)])
    labels = [
        variant_name(*names) for names in zip(chosen["objective"], chosen["variant"], strict=True)
    ]
    return chosen[np.array(labels) == label].sort_values("seed")["value"].to_numpy()


def rows(of, datasets=("phantom",), spread=0.008, gains=GAINS):
    """Tidy rows of every variant; a constant η helps classification and harms retrieval."""
    generator, table, ids = np.random.default_rng(0), [], run_ids(of, datasets)
    for dataset in datasets:
        for seed in of.seed_list:
            shared = generator.normal(0, 0.02)
            for label, (objective, variant) in variants(of).items():
                gain = gains[objective] + generator.normal(0, spread)
                eta = json.loads(variant).get("class_probability")
                eta = eta if isinstance(eta, float) else 0.0
                run = {"dataset": dataset, "objective": objective, "variant": variant, "seed": seed}
                run["run"] = ids[dataset, label, seed]
                for measured, level, factor in measurements():
                    effect = gain + (0.3 * eta if measured.task == "zero-shot" else -0.2 * eta)
                    for split in ("validation", "test"):
                        value = level + factor * (effect + shared + generator.normal(0, spread / 3))
                        table.append({**run, "split": split, **measured._asdict(), "value": value})
    return to_table(pd.DataFrame(table).assign(study="small", condition="{}"))


def curves(of, datasets=("phantom",), epochs=20):
    """Training curves of every variant; only DCL has anchors at the bound."""
    generator, epoch, tables, ids = (
        np.random.default_rng(1),
        np.arange(1, epochs + 1),
        [],
        run_ids(of, datasets),
    )
    for dataset in datasets:
        for place, (label, (objective, variant)) in enumerate(variants(of).items()):
            for seed in of.seed_list:
                noise = generator.normal(0, 0.02)
                rise = 1 - np.exp(-epoch / 8)
                bound = (
                    (0.1 + 0.02 * place) * rise * (1 + noise) if label.startswith("DCL") else np.nan
                )
                table = {
                    "study": "small",
                    "dataset": dataset,
                    "condition": "{}",
                    "objective": objective,
                    "variant": variant,
                }
                table |= {"seed": seed, "run": ids[dataset, label, seed], "epoch": epoch}
                table |= {
                    "loss": 4.1 - 1.5 * rise + noise,
                    "similarity of pairs": (0.3 + 0.05 * place) * rise + noise,
                }
                table |= {
                    "share at bound": bound,
                    "share at bound common": 1.3 * bound,
                    "share at bound rare": 0.5 * bound,
                }
                tables.append(pd.DataFrame(table))
    return pd.concat(tables, ignore_index=True)


def similarities(objectives, pairs=4000):
    """Normally distributed similarities of three relations per objective, and a sample of all
    pairs.
    """
    generator, tables = np.random.default_rng(2), []
    for place, objective in enumerate(objectives):
        for relation, centre in (
            ("own pair", 0.5),
            ("true of the image", 0.35 + 0.03 * place),
            ("not true of the image", 0.05),
        ):
            values = np.clip(generator.normal(centre, 0.15, pairs), -1, 1)
            table = {
                "dataset": "phantom",
                "objective": objective,
                "seed": 0,
                "relation": relation,
                "similarity": values,
            }
            tables.append(pd.DataFrame(table))
    related = pd.concat(tables, ignore_index=True)
    return pd.concat(
        [related, related.sample(frac=0.5, random_state=0).assign(relation="all pairs")],
        ignore_index=True,
    )


def overlays(objectives, phrases=5, size=64):
    """Grey discs with a box, and heatmaps whose peak is outside the box for the first objective and
    inside it for the others.
    """
    place, table = np.arange(size), []
    sentences = (
        "Small left apical pneumothorax.",
        "The heart is moderately enlarged.",
        "Pleural effusion on the right, of moderate size.",
    )
    for objective_number, objective in enumerate(objectives):
        for number in range(phrases):
            x, y = 12 + 7 * number, 18 + 4 * number
            disc = 60 + 120 * np.exp(-((place[None] - 32) ** 2 + (place[:, None] - 32) ** 2) / 500)
            shift = 20 if objective_number == 0 else 0
            heat = np.exp(
                -((place[None] - x - 8 - shift) ** 2 + (place[:, None] - y - 6) ** 2) / 80
            ).astype(np.float32)
            row = {
                "objective": objective,
                "seed": 0,
                "report": number,
                "finding": CLASSES[number % 5],
            }
            row |= {
                "sentence": sentences[number % 3],
                "size": size,
                "pixels": disc.astype(np.uint8).tobytes(),
            }
            row |= {
                "heatmap": heat.tobytes(),
                "x0": [float(x)],
                "y0": [float(y)],
                "x1": [float(x + 16)],
                "y1": [float(y + 12)],
            }
            table.append(row | {"CNR": 0.4 if shift else 1.25 + 0.1 * number})
    return pd.DataFrame(table)


def eta_errors(rows):
    """A mean η of every run, and an error."""
    generator, ids = np.random.default_rng(4), rows["run"].unique()
    draws = generator.uniform(size=(2, len(ids)))
    return pd.DataFrame(
        {"run": ids, "error of η": 0.2 + 2 * draws[0], "mean η": 0.1 + 0.3 * draws[1]}
    )


def mean_of_first(validation, dataset, objective, grid):
    """Return the mean of the first variant on the validation split; None if it is the only one."""
    place = {"dataset": dataset, "objective": objective, "variant": grid[0]}
    values = validation.loc[(validation[list(place)] == pd.Series(place)).all(axis=1), "value"]
    return values.mean() if len(grid) > 1 else None


def write(folder, settings_of_study, datasets=("phantom",), **options):
    """Write all artefacts that the report reads, and return the rows."""
    of = ImageTextStudy.model_validate(settings_of_study)
    measured = rows(of, datasets, **options)
    grids = {name: list(grid.values()) for name, grid in runs.variants(of).items()}
    several = {name: grid for name, grid in grids.items() if len(grid) > 1}
    candidates = describe_candidates(measured, several, MEASURED)
    validation = MEASURED.rows_of(measured[measured["split"] == "validation"])
    selection = pd.DataFrame(
        {
            "study": "small",
            "dataset": dataset,
            "objective": name,
            "variant": grid[0],
            "candidates": len(grid),
            "seeds": len(of.seed_list),
            "validation mean": mean_of_first(validation, dataset, name, grid),
        }
        for dataset in datasets
        for name, grid in grids.items()
    )
    chosen = selected(measured, selection)
    labels = headroom(chosen, "CL", "Oracle", 0.5, MEASURED)
    labels["sentence"] = [
        headroom_sentence(row, "AUC", "CL", "Oracle") for _, row in labels.iterrows()
    ]
    primary = primary_contrast(chosen, "DCL-LM", "CL", MEASURED, datasets[0], of.primary.margin)
    primary["answer"] = " ".join(answer(primary, "DCL-LM", "CL", 0.07))
    comparison = {
        "name": "small",
        "selection": json.loads(selection.to_json(orient="records")),
        "seeds": len(of.seed_list),
    }
    comparison |= {
        "headroom": json.loads(labels.to_json(orient="records")),
        "primary": json.loads(primary.to_json()),
    }
    comparison["selected by"] = MEASURED._asdict()
    folder.mkdir(parents=True)
    (folder / "comparison.json").write_text(json.dumps(comparison))
    (folder / "study.yaml").write_text(yaml.safe_dump(settings_of_study, sort_keys=False))
    (folder / "runs.json").write_text("[]")
    measured.to_parquet(folder / "rows.parquet")
    candidates.to_parquet(folder / "candidates.parquet")
    curves(of, datasets).to_parquet(folder / "curves.parquet")
    published_numbers(of, ROOT / "config/published.csv").to_parquet(folder / "published.parquet")
    eta_errors(measured).to_parquet(folder / "eta_errors.parquet")
    for kind, table in (("similarities", similarities), ("overlays", overlays)):
        wanted = getattr(of.figures, kind)
        place = folder / kind / (of.primary.dataset or datasets[0])
        place.mkdir(parents=True)
        for objective, rows_of_objective in table(wanted.objectives).groupby("objective"):
            rows_of_objective.to_parquet(place / f"{objective}.parquet")
    return measured
