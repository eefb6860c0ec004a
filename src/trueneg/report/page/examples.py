"""Retrieval and grounding that one can look at: thumbnails, results and heatmaps of a study's networks, ready for the page."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from trueneg.report.drawing import heat_colours
from trueneg.report.page.artefacts import Artefacts
from trueneg.report.page.inline import data_uri
from trueneg.text import privacy

CORNERS = ["x0", "y0", "x1", "y1"]


def examples_of(artefacts: Artefacts) -> dict[str, Any]:
    """What the page can show of a study's retrieval and grounding; nothing of a restricted one.

    Returns:
        ``restricted``; ``retrieval`` and ``grounding`` (:func:`_retrieval`, :func:`_grounding`), each None where the study has
        none.
    """
    tables = list(_retrieval_tables(artefacts.folder))
    restricted = artefacts.restricted or any(one for _, one in tables)
    if restricted:
        return {"restricted": True, "retrieval": None, "grounding": None}
    overlays = [
        pd.read_parquet(path).assign(dataset=path.parent.name)
        for path in sorted((artefacts.folder / "overlays").glob("*/*.parquet"))
    ]
    return {
        "restricted": False,
        "retrieval": _retrieval([table for table, _ in tables if len(table)]),
        "grounding": _grounding([table for table in overlays if len(table)]),
    }


def _retrieval_tables(folder: Path) -> Iterator[tuple[pd.DataFrame, bool]]:
    for path in sorted((folder / "retrieval").glob("*/*.parquet")):
        yield privacy.read_table(path)


def _retrieval(tables: list[pd.DataFrame]) -> dict[str, Any] | None:
    """Queries of both directions with the results of every objective.

    Returns:
        ``objectives``; ``images`` (thumbnails by number); ``queries``: ``dataset``, ``direction``, ``text`` or ``image``, and
        ``results`` by objective: ``found`` (rank of the first of its own) and ``list`` of [text or image, score, relation].
    """
    if not tables:
        return None
    table = pd.concat(tables, ignore_index=True)
    thumbnails = table.drop_duplicates("image").set_index("image")["thumbnail"]
    queries = []
    for (dataset, direction, _), asked in table.groupby(["dataset", "direction", "query"], sort=False):
        given, sought = ("text", "image") if direction.startswith("text") else ("image", "text")
        results = {}
        for objective, own in asked.sort_values("rank").groupby("objective", sort=False):
            listed = [[_plain(row[sought]), float(f"{row['score']:.3g}"), row["relation"]] for row in own.to_dict("records")]
            results[objective] = {"found": int(own["found"].iloc[0]), "list": listed}
        query = {"dataset": dataset, "direction": direction, given: _plain(asked[given].iloc[0]), "results": results}
        queries.append(query)
    return {
        "objectives": list(dict.fromkeys(table["objective"])),
        "seed": int(table["seed"].iloc[0]),
        "images": {str(number): data_uri(picture, "webp") for number, picture in thumbnails.items()},
        "queries": queries,
    }


def _grounding(tables: list[pd.DataFrame]) -> dict[str, Any] | None:
    """Phrases with their image, boxes, and every objective's heatmap.

    Returns:
        ``objectives``; ``phrases``: ``dataset``, ``sentence``, ``finding``, ``size``, ``image``, ``boxes`` (lists of x0, y0, x1,
        y1), and ``heatmaps`` by objective: ``image`` (transparent where the score is lowest) and ``CNR``.
    """
    if not tables:
        return None
    table = pd.concat(tables, ignore_index=True)
    phrases = []
    for (dataset, report, sentence), own in table.groupby(["dataset", "report", "sentence"], sort=False):
        first = own.iloc[0]
        size = int(first["size"])
        pixels = np.frombuffer(first["pixels"], np.uint8).reshape(size, size)
        phrases.append(
            {
                "dataset": dataset,
                "report": str(report),
                "sentence": sentence,
                "finding": str(first["finding"]),
                "size": size,
                "image": _webp(Image.fromarray(pixels)),
                "boxes": [
                    [round(float(value), 1) for value in box] for box in zip(*(first[name] for name in CORNERS), strict=True)
                ],
                "heatmaps": {row["objective"]: _heatmap(row, size) for row in own.to_dict("records")},
            }
        )
    return {"objectives": list(dict.fromkeys(table["objective"])), "seed": int(table["seed"].iloc[0]), "phrases": phrases}


def _heatmap(row: dict[str, Any], size: int) -> dict[str, Any]:
    """Stretched to its own range, as in the figure: the contrast-to-noise ratio does not depend on it."""
    heat = np.frombuffer(row["heatmap"], np.float32).reshape(size, size).astype(float)
    ratio = None if np.isnan(row["CNR"]) else float(f"{row['CNR']:.3g}")
    return {"image": _webp(Image.fromarray((255 * heat_colours(heat)).round().astype(np.uint8), "RGBA")), "CNR": ratio}


def _webp(image: Image.Image) -> str:
    stream = io.BytesIO()
    image.convert("RGBA" if image.mode == "RGBA" else "RGB").save(stream, "WEBP", quality=85)
    return data_uri(stream.getvalue(), "webp")


def _plain(value: Any) -> str:
    """A sentence, or the number of an image as the key of its thumbnail."""
    return str(value)
