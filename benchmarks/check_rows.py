"""Time ``trueneg check`` on a made-up image–text study of the user's own data: a table of rows with
small images.

    OMP_NUM_THREADS=1 python benchmarks/check_rows.py [--rows 20000] [--images]

Every row has its own JPEG file, a report of three sentences and a patient. Nothing has been read
before, as at the first check. Prints what the check says, and its wall time.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from PIL import Image

from trueneg.cli.main import main as trueneg

SENTENCES = [
    f"There is {some} finding in zone {zone}." for some in ("no", "a") for zone in range(999)
]


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--images", action="store_true", help="decode all images")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="check-rows") as place:
        folder = Path(place)
        write_data(folder, arguments.rows)
        command = ["check", str(write_study(folder)), "--results", str(folder / "results")]
        began, used = time.perf_counter(), time.process_time()
        code = trueneg(command + ["--images"] * arguments.images)
        seconds, spent = time.perf_counter() - began, time.process_time() - used
        print(
            f"{arguments.rows:,} rows: {seconds:.1f} s, {spent:.1f} s of a core; exit code {code}"
        )


if __name__ == "__main__":
    main()
