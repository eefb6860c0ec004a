"""A frozen tower's vectors of all images or texts of a source, computed once and shared by all
runs.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from trueneg.data.arrays import (
    content_hash,
    mapped_array,
    read_arrays,
    require_checksum,
    resumed_array,
    write_arrays,
)
from trueneg.data.mistakes import REMOVE
from trueneg.errors import UserError
from trueneg.io.privacy import owner_only

CONTENT = "vectors of a frozen tower"


class StoredFeatures(NamedTuple):
    """Vectors of n samples, each in V versions.

    Attributes:
        values: float32 (n, V, D, R), memory-mapped. The first version is the sample itself; the
            others are augmented. The first of the R vectors is that of the whole sample; the
            others, if any, are those of its regions, row by row.
        grid: rows and columns of the regions; None: there are none.
        weights: checksum of the tower's weights or, without a network, of the file of vectors.
        data: checksum of the source.
        files: checksums of the local files and folders that the tower was built from, by path:
            pooling, prompts or tokenizer, too, decide its vectors.
    """

    values: ndarray
    grid: tuple[int, int] | None
    weights: str
    data: str
    files: Mapping[str, str] = MappingProxyType({})

    @property
    def dimensions(self) -> int:
        """Return D."""
        return self.values.shape[2]


def read_features(path: str | Path, data: str) -> StoredFeatures:
    """Read stored vectors and verify their checksum.

    Args:
        path: file written by :func:`write_features`.
        data: checksum of the source that the vectors are used with.

    Raises:
        UserError: if the file is missing, damaged, or belongs to another source.
    """
    with read_arrays(path, CONTENT) as archive:
        stored = StoredFeatures(
            mapped_array(path, "values"),
            tuple(archive["grid"].tolist()) or None,
            str(archive["weights"]),
            str(archive["data"]),
            json.loads(str(archive.get("files", "{}"))),
        )
        require_checksum(content_hash(stored.values).hexdigest(), archive)
    if stored.data != data:
        raise UserError(
            f"{path} holds vectors of other data (checksum {stored.data[:6]}…; expected"
            f" {data[:6]}…). {REMOVE}"
        )
    return stored


def stored_weights(path: str | Path) -> str | None:
    """Return the checksum of the weights that stored vectors were computed with; None if there are
    none.
    """
    if not Path(path).is_file():
        return None
    with read_arrays(path, CONTENT) as archive:
        return str(archive["weights"])


def write_features(
    path: str | Path,
    cache: str | Path,
    made_of: Mapping[str, Any],
    count: int,
    compute: Callable[[slice], ndarray],
    *,
    grid: tuple[int, int] | None,
    at_once: int,
    restricted: bool,
) -> None:
    """Compute vectors in shards, and write them; a killed job resumes after its last finished
    shard.

    Args:
        path: .npz file to write.
        cache: folder of the unfinished vectors; removed at the end.
        made_of: what determines the vectors, with ``weights`` and ``data``; unfinished vectors of
            anything else are discarded.
        count: n, number of samples.
        compute: returns the vectors (B, V, D, R) of a slice of the samples.
        grid: see :class:`StoredFeatures`.
        at_once: samples per shard.
        restricted: whether only the owner of the files may read them.
    """

    def finite(chosen: slice) -> ndarray:
        part = np.asarray(compute(chosen), np.float32)
        if not np.isfinite(part).all():
            name = made_of["tower"].get("model", "the file of vectors")
            raise UserError(
                f"{name} gives vectors with NaN or inf for samples {chosen.start} to"
                f" {chosen.stop - 1} of {path}. Check its weights, or use others."
            )
        return part

    with owner_only(restricted):
        values = resumed_array(cache, made_of, count, finite, at_once)
        arrays = {
            "values": values,
            "grid": np.array(grid or (), np.int64),
            "weights": made_of["weights"],
            "data": made_of["data"],
            "files": json.dumps(made_of.get("files", {})),
            "checksum": content_hash(values).hexdigest(),
        }
        write_arrays(path, arrays)
    shutil.rmtree(cache)
