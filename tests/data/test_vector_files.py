"""Vectors are read from three formats as they were written; files that do not fit the samples are
refused.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from trueneg.data.vector_files import ROWS, read_vectors
from trueneg.errors import UserError

VECTORS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
VERSIONS = np.random.default_rng(1).normal(size=(6, 2, 4)).astype(np.float32)


def written(folder, suffix, values, name="vectors", **others):
    """Write an array in a format, with others beside it."""
    path = folder / f"file{suffix}"
    if suffix == ".npy":
        np.save(path, values)
    elif suffix == ".safetensors":
        save_file({name: np.ascontiguousarray(values), **others}, path)
    else:
        pq.write_table(pa.table({name: list(values.tolist()), **others}), path)
    return path


@pytest.fixture(params=[".npy", ".safetensors", ".parquet"])
def suffix(request):
    return request.param


@pytest.mark.parametrize("values", [VECTORS, VERSIONS])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_vectors_are_read_as_written(tmp_path, suffix, values, dtype):
    if suffix == ".parquet" and values is VERSIONS:
        values = values[:, 0]
    values = (10 * values).astype(dtype) if dtype is np.int8 else values.astype(dtype)
    result = read_vectors(written(tmp_path, suffix, values), None, 6, "images")
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, values.astype(np.float32))


def test_npy_files_are_memory_mapped(tmp_path):
    result = read_vectors(written(tmp_path, ".npy", VECTORS), None, 6, "images")
    while not isinstance(result, np.memmap):
        result = result.base
    assert result.mode == "r"


def test_fortran_order_and_big_endian_are_read(tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(VERSIONS).astype(">f4"))
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.npy", None, 6, "images"), VERSIONS)


def test_bfloat16_is_converted(tmp_path):
    values = torch.tensor(VECTORS).bfloat16()
    save_torch({"a": values}, tmp_path / "a.safetensors")
    np.testing.assert_array_equal(
        read_vectors(tmp_path / "a.safetensors", "a", 6, "images"), values.float().numpy()
    )


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32(), 4), pa.large_list(pa.float64()), pa.list_(pa.float16())]
)
def test_all_kinds_of_lists_are_read_over_several_row_groups(tmp_path, kind):
    rows = pa.array(VECTORS.astype(np.float16).tolist(), pa.list_(pa.float32())).cast(kind)
    pq.write_table(pa.table({"a": rows}), tmp_path / "a.parquet", row_group_size=2)
    result = read_vectors(tmp_path / "a.parquet", None, 6, "images")
    np.testing.assert_array_equal(result, VECTORS.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("suffix", [".safetensors", ".parquet"])
def test_a_column_is_chosen_by_name(tmp_path, suffix):
    other = VECTORS * 2 if suffix == ".safetensors" else (VECTORS * 2).tolist()
    path = written(tmp_path, suffix, VECTORS, "first", second=other)
    np.testing.assert_array_equal(read_vectors(path, "second", 6, "images"), VECTORS * 2)
    for column in (None, "third"):
        with pytest.raises(
            UserError, match=rf"file{suffix} has first, second, but column is {column}"
        ):
            read_vectors(path, column, 6, "images")


def test_other_columns_of_a_parquet_file_are_ignored(tmp_path):
    path = written(tmp_path, ".parquet", VECTORS, text=list("abcdef"), number=list(range(6)))
    np.testing.assert_array_equal(read_vectors(path, None, 6, "images"), VECTORS)
    with pytest.raises(UserError, match="vectors, but column is number"):
        read_vectors(path, "number", 6, "images")


def test_a_wrong_number_of_rows_is_refused(tmp_path, suffix):
    with pytest.raises(
        UserError, match=rf"file{suffix} has .*\(6, 4\).*expected .* each of 7 images"
    ):
        read_vectors(written(tmp_path, suffix, VECTORS), None, 7, "images")


@pytest.mark.parametrize("shape", [(6,), (6, 1, 2, 2), (6, 0), (0, 4), ()])
@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_wrong_dimensions_are_refused(tmp_path, suffix, shape):
    with pytest.raises(UserError, match=r"shape \(.*expected .*\(6, D\).*\(6, V, D\)"):
        read_vectors(written(tmp_path, suffix, np.ones(shape, np.float32)), None, 6, "images")


@pytest.mark.parametrize("rows", [[[1.0, 2], [3.0]], [[1.0], None]])
def test_lists_of_different_lengths_are_refused(tmp_path, rows):
    pq.write_table(pa.table({"a": rows}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet: lists of a have \[.*same number.*`column`"):
        read_vectors(tmp_path / "a.parquet", None, 2, "images")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("values", [VECTORS, VERSIONS])
def test_values_that_are_not_finite_are_refused(tmp_path, suffix, values, value):
    values = values[:, 0].copy() if suffix == ".parquet" and values is VERSIONS else values.copy()
    values[[2, 4], ..., 3] = value
    with pytest.raises(UserError, match=r"NaN or inf in 2 rows, first in row 2 "):
        read_vectors(written(tmp_path, suffix, values), None, 6, "images")


def test_lists_of_lists_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"file\.parquet has object"):
        read_vectors(written(tmp_path, ".parquet", VERSIONS), None, 6, "images")


def test_missing_values_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [[1.0, 2.0], [3.0, None]]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"NaN or inf in 1 rows, first in row 1 "):
        read_vectors(tmp_path / "a.parquet", None, 2, "images")


@pytest.mark.filterwarnings("ignore:overflow")
def test_values_too_large_for_float32_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"in float32|NaN or inf in 6 rows"):
        read_vectors(
            written(tmp_path, ".npy", VECTORS.astype(np.float64) * 1e200), None, 6, "images"
        )


def test_vectors_of_zeros_are_counted(tmp_path, suffix):
    values = VERSIONS.copy()
    values[1], values[5, 0] = 0, -0.0
    values = values[:, 0] if suffix == ".parquet" else values
    with pytest.raises(UserError, match=rf"{2 if suffix == '.parquet' else 3} zero vectors"):
        read_vectors(written(tmp_path, suffix, values), None, 6, "images")


def test_all_rows_of_a_large_file_are_checked(tmp_path):
    values = np.ones((2 * ROWS + 3, 2), np.float32)
    values[0, 1] = 2
    assert (
        read_vectors(written(tmp_path, ".npy", values), None, len(values), "images").shape
        == values.shape
    )
    values[-1, 0] = np.nan
    with pytest.raises(UserError, match=rf"row {2 * ROWS + 2:,} "):
        read_vectors(written(tmp_path, ".npy", values), None, len(values), "images")


def test_objects_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    np.save(tmp_path / "a.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match=r"a\.npy: cannot be read as vectors"):
        read_vectors(tmp_path / "a.npy", None, 1, "images")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "values", [np.array([["a", "b"]]), np.ones((1, 2), complex), np.ones((1, 2), bool)]
)
def test_values_that_are_not_numbers_are_refused(tmp_path, values):
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(UserError, match=rf"a\.npy has {values.dtype} of shape .*numbers"):
        read_vectors(tmp_path / "a.npy", None, 1, "images")


def test_columns_of_texts_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [["x", "y"]]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet has object of shape .*numbers"):
        read_vectors(tmp_path / "a.parquet", None, 1, "images")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet has no vectors"):
        read_vectors(tmp_path / "a.parquet", None, 1, "images")


def test_missing_files_and_other_formats_are_refused(tmp_path, suffix):
    with pytest.raises(UserError, match=rf"gone{suffix}: does not exist; expected vectors.*`path`"):
        read_vectors(tmp_path / f"gone{suffix}", None, 1, "images")
    with pytest.raises(
        UserError, match=r"path is .*a\.csv; expected .*\.npy, \.safetensors or \.parquet"
    ):
        read_vectors(tmp_path / "a.csv", None, 1, "images")


def test_damaged_files_are_refused(tmp_path, suffix):
    path = written(tmp_path, suffix, VECTORS)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(UserError, match=rf"file{suffix}: cannot be read as vectors.*`path`"):
        read_vectors(path, None, 6, "images")


def test_packed_binary_codes_are_refused(tmp_path, suffix):
    codes = np.packbits(VECTORS.repeat(4, axis=1) > 0, axis=1)
    path = written(tmp_path, suffix, codes)
    if suffix == ".parquet":
        rows = pa.array(codes.tolist(), pa.list_(pa.uint8()))
        pq.write_table(pa.table({"vectors": rows}), path)
    with pytest.raises(UserError, match=rf"file{suffix} has uint8 of shape \(6, 2\).*unpackbits"):
        read_vectors(path, None, 6, "images")


@pytest.mark.parametrize("values", [VECTORS, VERSIONS])
def test_vectors_that_are_all_equal_are_refused(tmp_path, suffix, values):
    values = values[:, 0] if suffix == ".parquet" and values is VERSIONS else values
    equal = values[:1].repeat(6, axis=0)
    with pytest.raises(UserError, match=rf"file{suffix}: all 6 vectors are equal"):
        read_vectors(written(tmp_path, suffix, equal), None, 6, "images")
    equal[-1, ..., 0] += 1
    read_vectors(written(tmp_path, suffix, equal), None, 6, "images")
    np.testing.assert_array_equal(
        read_vectors(written(tmp_path, suffix, values[:1]), None, 1, "images"), values[:1]
    )
