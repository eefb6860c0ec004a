"""Retrieval and grounding examples for the page: thumbnails, results and heatmaps of a study's networks."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from trueneg.io import privacy
from trueneg.report.drawing import heat_colours

NO_EXAMPLES: dict[str, Any] = {"restricted": False, "thumbnails": [], "queries": [], "phrases": []}


def examples_of(folder: Path, restricted: bool) -> dict[str, Any]:
    """Collect a study's retrieval and grounding examples; restricted studies show none.

    Args:
        folder: folder with the study's artefacts.
        restricted: whether the settings forbid showing text and images; the files can also be marked as restricted.

    Returns:
        A dictionary like :data:`NO_EXAMPLES`: ``restricted``, ``thumbnails``, ``queries`` in both directions and ``phrases``.
    """
    tables = [privacy.read_table(path) for path in sorted(folder.glob("retrieval/*/*.parquet"))]
    if restricted or any(hidden for _, hidden in tables):
        return NO_EXAMPLES | {"restricted": True}
    retrieval = [table for table, _ in tables if len(table)]
    overlays = [pd.read_parquet(path).assign(dataset=path.parent.name) for path in sorted(folder.glob("overlays/*/*.parquet"))]
    thumbnails, queries = _queries(pd.concat(retrieval, ignore_index=True)) if retrieval else ([], [])
    phrases = _phrases(pd.concat(overlays, ignore_index=True)) if overlays else []
    return {"restricted": False, "thumbnails": thumbnails, "queries": queries, "phrases": phrases}


def data_uri(content: bytes, kind: str) -> str:
    """Encode an image as a data URI; ``kind`` is its image type, such as ``"webp"``."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def webp(image: Image.Image, lossless: bool = False) -> str:
    """Encode an image as a compact WebP data URI."""
    stream = io.BytesIO()
    image.save(stream, "WEBP", quality=85, lossless=lossless)
    return data_uri(stream.getvalue(), "webp")


def _queries(table: pd.DataFrame) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the distinct thumbnails, and each query's results by objective, best first; ``picture`` indexes the thumbnails."""
    table["picture"], thumbnails = pd.factorize(table["thumbnail"])
    queries = []
    for _, asked in table.sort_values("rank", kind="stable").groupby(["dataset", "direction", "query"], sort=False):
        results = {name: rows.to_dict("records") for name, rows in asked.groupby("objective", sort=False)}
        queries.append({**asked.iloc[0], "results": results})
    return [data_uri(picture, "webp") for picture in thumbnails], queries


def _phrases(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return each phrase with its image, its boxes (x, y, width, height) and one heatmap per objective."""
    phrases = []
    for _, rows in table.groupby(["dataset", "report", "sentence"], sort=False):
        first = rows.iloc[0]
        x0, y0, x1, y1 = (np.round(np.array(first[name], float), 1) for name in ("x0", "y0", "x1", "y1"))
        pixels = np.frombuffer(first["pixels"], np.uint8).reshape(first["size"], first["size"])
        boxes, heatmaps = np.stack([x0, y0, x1 - x0, y1 - y0], axis=1).tolist(), map(_heatmap, rows["heatmap"], rows["size"])
        maps = list(zip(rows["objective"], rows["CNR"], heatmaps, strict=True))
        phrases.append({**first, "picture": webp(Image.fromarray(pixels).convert("RGB")), "boxes": boxes, "maps": maps})
    return phrases


def _heatmap(heat: bytes, size: int) -> str:
    """Encode a heatmap rescaled to its own range, as in the figure; this does not change the contrast-to-noise ratio."""
    values = np.frombuffer(heat, np.float32).reshape(size, size).astype(float)
    return webp(Image.fromarray((255 * heat_colours(values)).round().astype(np.uint8), "RGBA"))
