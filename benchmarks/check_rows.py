"""Time ``trueneg check`` on a made-up study of the user's own data: a table of rows with small
images, or of queries with answers and hard negatives.

    OMP_NUM_THREADS=1 python benchmarks/check_rows.py [--rows 20000] [--images]
    OMP_NUM_THREADS=1 python benchmarks/check_rows.py --rows 100000 --hard-negatives 10

Every row has its own JPEG file, a report of three sentences and a patient; or a query, its answer,
and answers of other queries. Nothing has been read before, as at the first check. Prints what the
check says, and its time.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from PIL import Image

from trueneg.cli.main import main as trueneg

SENTENCES = [
    f"There is {some} finding in zone {zone}." for some in ("no", "a") for zone in range(999)
]

MODEL = "all-MiniLM-L6-v2"


def write_data(folder: Path, rows: int) -> None:
    """Write a table and its images."""
    draws = np.random.default_rng(0)
    (folder / "images").mkdir()
    table = pd.DataFrame({"image": [f"{row:06d}.jpg" for row in range(rows)]})
    for name in table["image"]:
        pixels = draws.integers(0, 256, (16, 16), np.uint8)
        Image.fromarray(pixels).resize((128, 128)).save(folder / "images" / name)
    table["text"] = [" ".join(chosen) for chosen in draws.choice(SENTENCES, (rows, 3))]
    table["patient"] = [f"p{row // 2}" for row in range(rows)]
    table.to_csv(folder / "table.csv", index=False)


def write_study(folder: Path) -> Path:
    """Write the configuration of both studies."""
    reports = {
        "source": "image_table",
        "path": str(folder / "images"),
        "table": str(folder / "table.csv"),
    }
    reports["patient_column"] = "patient"
    cpu = {"device": "cpu"}
    texts = {
        "kind": "likelihood",
        "title": "Texts",
        "reports": reports,
        "language_models": {"BERT": cpu},
        "scoring": cpu,
    }
    primary = {
        "task": "retrieval sentence",
        "metric": "R",
        "labels": "report",
        "direction": "text to image",
        "k": 10,
    }
    pairs = {
        "kind": "image-text",
        "title": "Pairs",
        "dataset": {"source": "image_table", "text": "reports", "resolution": 64},
        "encoder": {"name": "small"},
        "text_encoder": {"name": "small"},
        "training": {"epochs": 10, "batch_size": 64, **cpu},
        "objectives": {
            "CL": {"name": "cl"},
            "DCL-LM": {"name": "dcl", "class_probability": "language model"},
        },
        "seeds": 8,
        "primary": {**primary, "treatment": "DCL-LM", "baseline": "CL"},
    }
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"reports": texts, "own": pairs}))
    return path


def write_queries(folder: Path, rows: int, negatives: int) -> Path:
    """Write a table of queries and the configuration of its study; return the latter."""
    draws = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(5_000)])
    queries = draws.choice(words, (rows, 10))
    answers = [" ".join(chosen) for chosen in draws.choice(words, (rows, 25))]
    with open(folder / "table.jsonl", "w") as file:
        for row, others in enumerate(draws.integers(0, rows, (rows, negatives))):
            line: dict[str, Any] = {
                "query": f"{' '.join(queries[row])} {row}",
                "pos": [answers[row]],
            }
            print(json.dumps(line | {"neg": [answers[other] for other in others]}), file=file)
    dataset = {"source": "text_table", "path": str(folder / "table.jsonl"), "positives": "given"}
    columns = {"text_column": "query", "positive_column": "pos", "negative_columns": ["neg"]}
    study: dict[str, Any] = {
        "kind": "text",
        "title": "Queries",
        "dataset": dataset | columns | {"validation": 0.02, "test": 0.02},
        "text_encoder": {"name": "sentence_transformers", "model": MODEL, "train": "none"},
        "similarity": {"learned_logit_scale": False},
        "training": {"updates": 300, "batch_size": 64, "device": "cpu"},
        "objectives": {
            "CL": {"name": "cl", "logit_scale": 20},
            "DCL": {"name": "dcl", "class_probability": 0.001, "logit_scale": 20},
        },
        "seeds": 4,
        "primary": {"treatment": "DCL", "baseline": "CL"},
    }
    study["text_encoder"]["truncate"] = True
    study["primary"] |= {"task": "retrieval", "metric": "R", "labels": "seen", "k": 1}
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"queries": study}))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--images", action="store_true", help="decode all images")
    parser.add_argument("--hard-negatives", type=int, help="of each query, in place of images")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="check-rows") as place:
        folder = Path(place)
        if arguments.hard_negatives is None:
            write_data(folder, arguments.rows)
            study = write_study(folder)
        else:
            study = write_queries(folder, arguments.rows, arguments.hard_negatives)
        command = ["check", str(study), "--results", str(folder / "results")]
        began = time.perf_counter()
        used = sum(os.times()[:4])
        code = trueneg(command + ["--images"] * arguments.images)
        # with the process that builds towers
        seconds = time.perf_counter() - began
        spent = sum(os.times()[:4]) - used
        print(
            f"{arguments.rows:,} rows: {seconds:.1f} s, {spent:.1f} s of a core; exit code {code}"
        )


if __name__ == "__main__":
    main()
