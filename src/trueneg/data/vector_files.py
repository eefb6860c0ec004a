"""Files of vectors that were computed elsewhere: .npy, .safetensors and parquet."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy import ndarray
from safetensors.torch import load_file

from trueneg.errors import UserError
from trueneg.io.reading import reading

ROWS = 4096  # checked at once, so that a memory-mapped file need not fit in memory
LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)


def read_vectors(path: str | Path, column: str | None, count: int, what: str) -> ndarray:
    """Read one vector per sample, or one per version of each sample.

    Args:
        path: a ``.npy`` file, which is memory-mapped, or a ``.safetensors`` or ``.parquet`` file.
        column: column of lists in a parquet file, or tensor in a ``.safetensors`` file; None: the
            only one.
        count: number of samples.
        what: name of the samples, in the plural, for messages.

    Returns:
        float32, shape (count, D), or (count, V, D) with V versions of each sample (not from
            parquet).

    Raises:
        UserError: if the file is missing, damaged or in another format, has no such column, another
            number of rows or of dimensions, uint8 codes, values that are not finite, zero vectors,
            whose cosine similarity is undefined, or only equal vectors.
    """
    path = Path(path)
    with reading(path, "vectors", "Write it again, or correct `path`."):
        values = _values(path, column)
    if (
        values.ndim not in (2, 3)
        or 0 in values.shape
        or values.dtype.kind not in "fiu"
        or len(values) != count
    ):
        raise UserError(
            f"{path} has {values.dtype} of shape {values.shape}; expected one row of numbers for"
            f" each of {count:,} {what}, ({count}, D), or V versions of it, ({count}, V, D)."
            " Correct `path` or `column`."
        )
    if values.dtype == np.uint8:
        raise UserError(
            f"{path} has uint8 of shape {values.shape}, as packed binary codes have; expected one"
            " number per dimension. Unpack codes with numpy.unpackbits(codes, axis=-1); store other"
            " numbers as float32."
        )
    values = np.asarray(values, dtype=np.float32)
    blocks = [np.abs(values[start : start + ROWS]).max(axis=-1) for start in range(0, count, ROWS)]
    largest = np.concatenate(blocks).reshape(count, -1)  # NaN where a vector contains NaN
    if len(rows := np.flatnonzero(~np.isfinite(largest).all(axis=1))):
        raise UserError(
            f"{path} has NaN or inf in {len(rows):,} rows, first in row {rows[0]:,} (counted from"
            " 0). Correct `path`."
        )
    if zeros := np.count_nonzero(largest == 0):
        raise UserError(
            f"{path} has {zeros:,} zero vectors, whose cosine similarity is undefined. Leave out"
            f" these {what}."
        )
    if count > 1 and all((row == values[0]).all() for row in values):
        raise UserError(
            f"{path}: all {count:,} vectors are equal; expected different ones. Correct `path`, or"
            " compute them again."
        )
    return values


def _values(path: Path, column: str | None) -> ndarray:
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r", allow_pickle=False)
    if path.suffix == ".safetensors":
        tensors = load_file(path)
        values = tensors[_chosen(path, sorted(tensors), column)]
        return (values.float() if values.is_floating_point() else values).numpy()
    if path.suffix != ".parquet":
        raise UserError(
            f"path is {path}; expected a file of vectors that ends in .npy, .safetensors or"
            " .parquet."
        )
    with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        name = _chosen(
            path,
            [field.name for field in parquet.schema_arrow if isinstance(field.type, LISTS)],
            column,
        )
        values = parquet.read(columns=[name]).column(name).combine_chunks()
    lengths = pc.unique(pc.list_value_length(values)).to_pylist()
    if len(lengths) != 1 or lengths == [None]:
        raise UserError(
            f"{path}: lists of {name} have {lengths[:3]} values; expected the same number in all."
            " Correct `column`."
        )
    return values.flatten().to_numpy(zero_copy_only=False).reshape(len(values), -1)


def _chosen(path: Path, names: Sequence[str], column: str | None) -> str:
    if column in names or (column is None and len(names) == 1):
        return column or names[0]
    raise UserError(
        f"{path} has {', '.join(names) or 'no vectors'}, but column is {column}; expected one of"
        " these names."
    )
