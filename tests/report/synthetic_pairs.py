"""An image–text study's artefacts as it would leave them, with effects that are known."""

import json

import numpy as np
import pandas as pd
import yaml

from trueneg.config import runs
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.stats.comparison import gate, primary_contrast, select

CLASSES = ("cardiomegaly", "edema", "effusion", "pneumonia", "pneumothorax")
GAINS = {"CL": 0.0, "DCL": 0.01, "DCL-LM": 0.03, "DCL-true": 0.035, "ReCo": -0.01, "same": 0.02, "Oracle": 0.06}
CONSTANTS = (0.01, 0.05, 0.1, 0.2)
METHODS = {"CL": "LSE+NL", "DCL-LM": "DCL eta_LM"}
PUBLISHED = [
    {"paper": "relaxing-contrastiveness", "table": "Table 1", "task": "classification", "setting": "", "metric": "AUC"}
    | {"methods": METHODS, "measured": {"metric": "AUC"}},
    {"paper": "sample-specific-debiasing", "table": "Table 5", "task": "retrieval", "setting": "image-to-text", "metric": "R@10"}
    | {
        "methods": METHODS,
        "measured": {"task": "retrieval sentence", "setting": "relevant=report", "metric": "image to text R@10"},
    },
]
PRIMARY = {"task": "zero-shot", "setting": "", "metric": "AUC"}


def settings(**changes):
    """A study as a configuration would say it; keys replace sections."""
    given = {
        "kind": "image-text",
        "title": "A small phantom",
        "question": "Does it help?",
        "dataset": {"source": "phantom", "text": "reports"},
        "encoder": {"name": "small"},
        "text_encoder": {"name": "small"},
        "training": {"epochs": 2},
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
        "primary": {**PRIMARY, "treatment": "DCL-LM", "baseline": "CL", "oracle": "Oracle", "published": 0.07},
        "figures": {
            "overlays": {"objectives": ["CL", "DCL-LM", "Oracle"], "phrases": 4},
            "similarities": {"objectives": ["CL", "DCL,class_probability=0.1", "DCL-LM", "ReCo"]},
        },
    }
    return given | changes


def study(**changes):
    """The resolved study."""
    return ImageTextStudy.model_validate(settings(**changes))


def measurements():
    """(task, setting, metric, level, how much an objective's gain moves it)."""
    for number, name in enumerate(("", *CLASSES)):
        yield "zero-shot", "", f"AUC {name}".strip(), 0.72 + 0.03 * number, 1.0
        yield "zero-shot", "", f"ACC {name}".strip(), 0.62 + 0.03 * number, 0.8
        yield "zero-shot", "", f"AUC positive prompt {name}".strip(), 0.70 + 0.03 * number, 0.9
        for fraction in (0.01, 0.1, 1):
            yield "linear probe", f"fraction={fraction:g}", f"AUC {name}".strip(), 0.8 + 0.05 * fraction + 0.01 * number, 0.4
    for task, setting, lift in (
        ("retrieval sentence", "relevant=report", 0.0),
        ("retrieval sentence", "relevant=truth", 0.1),
        ("retrieval report", "relevant=report", 0.05),
    ):
        for way, more in (("text to image", 0.0), ("image to text", 0.02)):
            for k in (1, 5, 10):
                yield task, setting, f"{way} R@{k}", 0.03 + 0.02 * k + lift + more, 0.8
            yield task, setting, f"{way} MedR", 60 - 100 * lift - 50 * more, -200.0
        yield task, setting, "Recall", 0.13 + lift, 0.8
        yield task, setting, "MedR", 60 - 100 * lift, -200.0
    for number, name in enumerate(("", "macro", *CLASSES)):
        yield "grounding", "", f"CNR {name}".strip(), 0.9 + 0.05 * number, 3.0
        yield "grounding", "", f"CNR signed {name}".strip(), 0.7 + 0.05 * number, 3.0
        yield "grounding", "", f"mIoU {name}".strip(), 0.17, 0.5
    yield "grounding", "", "phrases", 212, 0.0


def rows(of, datasets=("phantom",), spread=0.008, gains=GAINS):
    """Rows of every variant of a study; a constant η first helps classification, and always harms retrieval."""
    generator, found = np.random.default_rng(0), []
    for dataset in datasets:
        for seed in of.seed_list:
            shared = generator.normal(0, 0.02)
            for label in runs.objectives(of):
                gain = gains[label.split(",")[0]] + generator.normal(0, spread)
                eta = float(label.partition("class_probability=")[2] or 0)
                for task, setting, metric, level, factor in measurements():
                    own = gain + (0.3 * eta if task == "zero-shot" else -0.2 * eta)
                    for split in ("validation", "test"):
                        value = level + factor * (own + shared + generator.normal(0, spread / 3))
                        found.append((dataset, label, seed, split, task, setting, metric, value))
    columns = ["dataset", "objective", "seed", "split", "task", "setting", "metric", "value"]
    return pd.DataFrame(found, columns=columns).assign(study="small")


def curves(of, datasets=("phantom",), epochs=20):
    """Training curves; only DCL has anchors at the bound."""
    generator, epoch, tables = np.random.default_rng(1), np.arange(1, epochs + 1), []
    for dataset in datasets:
        for place, label in enumerate(runs.objectives(of)):
            for seed in of.seed_list:
                noise = generator.normal(0, 0.02)
                rise = 1 - np.exp(-epoch / 8)
                bound = (0.1 + 0.02 * place) * rise * (1 + noise) if label.startswith("DCL") else np.nan
                table = {"study": "small", "dataset": dataset, "objective": label, "seed": seed, "epoch": epoch}
                table |= {"loss": 4.1 - 1.5 * rise + noise, "similarity of pairs": (0.3 + 0.05 * place) * rise + noise}
                table |= {"share at bound": bound, "share at bound common": 1.3 * bound, "share at bound rare": 0.5 * bound}
                tables.append(pd.DataFrame(table))
    return pd.concat(tables, ignore_index=True)


def similarities(objectives, pairs=4000):
    """Three bells a objective."""
    generator, tables = np.random.default_rng(2), []
    for place, objective in enumerate(objectives):
        for relation, centre in (("own pair", 0.5), ("true of the image", 0.35 + 0.03 * place), ("not true of the image", 0.05)):
            values = np.clip(generator.normal(centre, 0.15, pairs), -1, 1)
            table = {"dataset": "phantom", "objective": objective, "seed": 0, "relation": relation, "similarity": values}
            tables.append(pd.DataFrame(table))
    return pd.concat(tables, ignore_index=True)


def overlays(objectives, phrases=5, size=64):
    """Grey discs with a box; the heatmap's peak is off the box for the first objective, on it for the others."""
    place, found = np.arange(size), []
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
            heat = np.exp(-((place[None] - x - 8 - shift) ** 2 + (place[:, None] - y - 6) ** 2) / 80).astype(np.float32)
            row = {"objective": objective, "seed": 0, "report": number, "finding": CLASSES[number % 5]}
            row |= {"sentence": sentences[number % 3], "size": size, "pixels": disc.astype(np.uint8).tobytes()}
            row |= {"heatmap": heat.tobytes(), "x0": [float(x)], "y0": [float(y)], "x1": [float(x + 16)], "y1": [float(y + 12)]}
            found.append(row | {"CNR": 0.4 if shift else 1.25 + 0.1 * number})
    return pd.DataFrame(found)


def class_probabilities(classes=48):
    """Zipf's probabilities, and η that follows them with noise."""
    generator = np.random.default_rng(3)
    probability = 0.3 / np.arange(1, classes + 1)
    eta = 0.2 * probability**0.8 * np.exp(generator.normal(0, 0.4, classes))
    table = {"class": np.arange(classes), "name": [f"class {n}" for n in range(classes)], "sentences": 40}
    table |= {"kind": np.where(np.arange(classes) < 40, "positive", np.where(np.arange(classes) < 45, "negated", "filler"))}
    table |= {"eta": eta, "eta low": eta * 0.4, "eta high": eta * 2.1, "image probability": probability}
    return pd.DataFrame(table)


def write(folder, given, datasets=("phantom",), **options):
    """Everything that the report reads, under ``folder`` (the study's artefacts); returns the rows."""
    of = ImageTextStudy.model_validate(given)
    measured = rows(of, datasets, **options)
    selection = select(measured, runs.candidates(of), **PRIMARY)
    chosen = selection.set_index(["dataset", "objective"])["chosen"]
    gates = gate(measured, chosen[datasets[0], "CL"], chosen[datasets[0], "Oracle"], 0.5, **PRIMARY)
    treatment, baseline = (chosen[datasets[0], name] for name in ("DCL-LM", "CL"))
    answer = primary_contrast(measured, treatment, baseline, dataset=datasets[0], expected=0.07, gate=gates, **PRIMARY)
    comparison = {"name": "small", "selection": selection.to_dict("records"), "seeds": len(of.seed_list)}
    comparison |= {"gate": json.loads(gates.to_json(orient="records")), "primary": json.loads(answer.to_json())}
    folder.mkdir(parents=True)
    (folder / "comparison.json").write_text(json.dumps(comparison))
    (folder / "study.yaml").write_text(yaml.safe_dump(given, sort_keys=False))
    (folder / "runs.json").write_text("[]")
    measured.to_parquet(folder / "rows.parquet")
    curves(of, datasets).to_parquet(folder / "curves.parquet")
    (published() if of.published else published().iloc[:0]).to_parquet(folder / "published.parquet")
    class_probabilities().to_parquet(folder / "class_probabilities.parquet")
    for kind, table in (("similarities", similarities), ("overlays", overlays)):
        wanted = getattr(of.figures, kind)
        place = folder / kind / datasets[0]
        place.mkdir(parents=True)
        for objective, own in table(wanted.objectives).groupby("objective"):
            own.to_parquet(place / f"{objective}.parquet")
    return measured


def published():
    """Printed numbers beside the zero-shot AUC and a recall, in the order of PUBLISHED."""
    table = pd.DataFrame({"dataset": "phantom", "objective": ["CL", "DCL-LM"], **PRIMARY, "value": [0.788, 0.862]})
    other = {"task": "retrieval sentence", "setting": "relevant=report", "metric": "image to text R@10", "value": [0.09, 0.1]}
    table = pd.concat([table, table.assign(**other)])
    return table.assign(standard_error=[0.006, np.nan, np.nan, np.nan]).reset_index(drop=True)
