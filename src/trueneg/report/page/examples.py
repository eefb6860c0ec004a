"""Retrieval examples for the page: thumbnails and results of a study's networks."""

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from pandas import DataFrame

from trueneg.io import privacy

NO_EXAMPLES: dict[str, Any] = {"restricted": False, "thumbnails": [], "queries": []}


def examples_of(folder: Path, networks: Iterable[str], restricted: bool) -> dict[str, Any]:
    """Collect a study's retrieval examples; restricted studies show none.

    Args:
        folder: folder with the study's artefacts.
        networks: data set and label of each network to show; those without examples are left out.
            The folder may also have examples of earlier configurations.
        restricted: whether the settings forbid showing text and images; the files can also be
            marked as restricted.

    Returns:
        A dictionary like :data:`NO_EXAMPLES`: ``restricted``, ``thumbnails`` and ``queries`` in
            both directions.
    """
    places = [folder / f"retrieval/{network}.parquet" for network in networks]
    tables = [privacy.read_table(path) for path in places if path.is_file()]
    if restricted or any(hidden for _, hidden in tables):
        return NO_EXAMPLES | {"restricted": True}
    retrieval = [table for table, _ in tables if len(table)]
    thumbnails, queries = (
        _queries(pd.concat(retrieval, ignore_index=True)) if retrieval else ([], [])
    )
    return {"restricted": False, "thumbnails": thumbnails, "queries": queries}


def suspects_of(path: Path, restricted: bool) -> list[dict[str, Any]]:
    """Return the pairs of a file of :func:`trueneg.evaluation.suspects.write_suspects`, with
    thumbnails as data URIs; none if it is missing or restricted.
    """
    if restricted or not path.is_file():
        return []
    table, hidden = privacy.read_table(path)
    for name in table.columns.intersection(["thumbnail", "thumbnail2"]):
        table[name] = table[name].map(data_uri)
    pairs: list[Any] = [] if hidden else table.to_dict("records")
    return pairs


def data_uri(webp: bytes) -> str:
    """Encode a WebP image as a data URI."""
    return f"data:image/webp;base64,{base64.b64encode(webp).decode()}"


def _queries(table: DataFrame) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the distinct thumbnails, and each query's results by objective, best first;
    ``picture`` indexes the thumbnails.
    """
    table["picture"], thumbnails = pd.factorize(table["thumbnail"])
    queries = []
    for _, asked in table.sort_values("rank", kind="stable").groupby(
        ["dataset", "direction", "query"], sort=False
    ):
        results = {
            name: rows.to_dict("records") for name, rows in asked.groupby("objective", sort=False)
        }
        queries.append({**asked.iloc[0], "results": results})
    return [data_uri(picture) for picture in thumbnails], queries
