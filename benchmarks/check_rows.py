"""Time ``trueneg check`` on a made-up image–text study of the user's own data: a table of rows with small images.

    OMP_NUM_THREADS=1 python benchmarks/check_rows.py [--rows 20000] [--images]

Every row has its own JPEG file, a report of three sentences, a patient and a label. Nothing has been read before, as at the first
check. Prints what the check says, and its wall time.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from PIL import Image

from trueneg.cli.main import main as trueneg

SIDE = 128  # pixels
WORDS = ("effusion", "edema", "opacity", "nodule", "catheter", "fracture", "cardiomegaly", "pneumothorax", "atelectasis", "scar")


def write_data(folder: Path, rows: int) -> None:
    """Write a table and its images."""
    draws = np.random.default_rng(0)
    (folder / "images").mkdir()
    names = [f"{row:06d}.jpg" for row in range(rows)]
    for name in names:
        pixels = draws.integers(0, 256, (SIDE // 8, SIDE // 8), np.uint8)
        Image.fromarray(pixels).resize((SIDE, SIDE)).save(folder / "images" / name)
    sentences = [f"There is {some} {word} in zone {zone}." for some in ("no", "a") for word in WORDS for zone in range(99)]
    texts = [" ".join(chosen) for chosen in draws.choice(sentences, (rows, 3))]
    patients, label = [f"p{row // 2}" for row in range(rows)], draws.integers(0, 2, rows // 2 + 1)[np.arange(rows) // 2]
    table = pd.DataFrame({"image": names, "text": texts, "patient": patients, "ill": label})
    table.to_csv(folder / "table.csv", index=False)


def write_study(folder: Path) -> Path:
    """Write the configuration of both studies."""
    reports = {"source": "image_table", "path": str(folder / "images"), "table": str(folder / "table.csv")}
    model = {"device": "cpu"}
    texts = {
        "kind": "likelihood",
        "title": "Texts",
        "reports": reports | {"patient_column": "patient"},
        "language_models": {"BERT": model},
        "scoring": model,
    }
    pairs = {
        "kind": "image-text",
        "title": "Pairs",
        "dataset": {"source": "image_table", "text": "texts", "resolution": 64, "label_columns": ["ill"]},
        "encoder": {"name": "small"},
        "text_encoder": {"name": "small"},
        "training": {"epochs": 10, "batch_size": 64, "device": "cpu"},
        "objectives": {"CL": {"name": "cl"}, "DCL-LM": {"name": "dcl", "class_probability": "language model"}},
        "seeds": 8,
        "primary": {
            "task": "retrieval sentence",
            "metric": "R",
            "labels": "report",
            "direction": "text to image",
            "k": 10,
            "treatment": "DCL-LM",
            "baseline": "CL",
        },
    }
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"texts": texts, "own": pairs}))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--images", action="store_true", help="decode all images")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="check-rows") as place:
        folder = Path(place)
        write_data(folder, arguments.rows)
        command = ["check", str(write_study(folder)), "--results", str(folder / "results")]
        began, used = time.perf_counter(), os.times()
        code = trueneg(command + ["--images"] * arguments.images)
        spent = sum(os.times()[:2]) - sum(used[:2])
        print(f"{arguments.rows:,} rows: {time.perf_counter() - began:.1f} s, {spent:.1f} s of a core; exit code {code}")


if __name__ == "__main__":
    main()
