"""A damaged file is refused in a sentence, made again, or read without loss: no traceback, no wrong
number, no pickle loaded.
"""

import dataclasses
import hashlib
import io
import os
import random
import shutil
import tarfile
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from tests.data.pictures import encoded
from tests.fuzz.attempts import FAILED, RAN, REFUSED, attempted
from tests.fuzz.changes import CONTROL
from tests.fuzz.damaged import Forged, damage, kinds, repair, targets
from trueneg.data.image_cache import cache_images
from trueneg.data.image_files import ImageFiles
from trueneg.data.images.image_source import read_source
from trueneg.data.images.official_archive import fetch_archive
from trueneg.data.vector_files import read_vectors
from trueneg.errors import UserError
from trueneg.models.weights import read_tensors


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Intact files, which each case damages and restores."""
    folder = tmp_path_factory.mktemp("files")
    before = os.getcwd()
    os.chdir(folder)
    yield folder, targets(folder)
    os.chdir(before)


def plain(value):
    """Return a value as something that can be compared with ``==``."""
    if dataclasses.is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray | torch.Tensor):
        return np.asarray(value).tolist()
    return value.to_dict("tight") if isinstance(value, pd.DataFrame) else value


def failures(whole, seed, rounds):
    """Damage each file in all ways, and return what failed."""
    folder, files = whole
    failed = []
    for name, target in files.items():
        shutil.copy2(target.path, folder / "kept")
        expected = plain(target.read()) if target.exact else None
        for number, kind in enumerate(kinds(target) * rounds):
            damage(target, kind, random.Random(f"{seed} {name} {number}"))
            outcome = attempted(target.read)
            wrong = target.exact and outcome.kind == RAN and plain(outcome.value) != expected
            if outcome.kind == FAILED or wrong or (folder / "unpickled").exists():
                failed.append(f"{name}, {kind}: {'wrong values' if wrong else outcome.text}")
            repair(target, folder / "kept")
    return failed


def test_whole_files_are_read(whole):
    for name, target in whole[1].items():
        outcome = attempted(target.read)
        assert outcome.kind == RAN, f"{name}: {outcome.text}"


def test_a_damaged_file(whole):
    assert failures(whole, seed=0, rounds=1) == []


@pytest.mark.long
def test_files_damaged_in_new_ways(whole, exploration_seed):
    assert failures(whole, exploration_seed, rounds=4) == []


def member(name, kind=tarfile.REGTYPE, target="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


@pytest.mark.parametrize(
    "hostile",
    [
        member("../climbed"),
        member("/tmp/climbed-absolute"),
        member("a/./../../../climbed"),
        member("link", tarfile.SYMTYPE, "../../outside"),
        member("link", tarfile.LNKTYPE, "/etc/passwd"),
        member("device", tarfile.FIFOTYPE),
        member("setuid", mode=0o6777),
        member(CONTROL.replace("\x00", "")),
    ],
    ids=lambda info: repr(info.name),
)
def test_an_archive_writes_only_plain_files_into_its_folder(tmp_path, hostile):
    folder = tmp_path / "data"
    folder.mkdir()
    with tarfile.open(folder / "archive.tar", "w") as archive:
        archive.addfile(hostile)
        archive.addfile(member("inside/whole"))
    md5 = hashlib.md5((folder / "archive.tar").read_bytes()).hexdigest()
    outcome = attempted(
        lambda: fetch_archive("https://nowhere.invalid/archive.tar", md5, folder, "inside")
    )
    assert outcome.kind != FAILED, outcome.text
    assert os.listdir(tmp_path) == ["data"]
    for path in folder.rglob("*"):
        assert path.resolve().is_relative_to(folder)
        assert path.is_dir() or (path.is_file() and not path.stat().st_mode & 0o6000)


def huge_array(path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (10**12, 1, 8, 8)}
    )
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("images.npy", header.getvalue())


def pickled_array(path):
    with zipfile.ZipFile(path, "a") as archive, archive.open("images.npy", "w") as stream:
        np.save(stream, np.array([Forged()], dtype=object))


@pytest.mark.parametrize("add_images", [huge_array, pickled_array])
def test_an_npz_of_a_huge_or_pickled_array_is_refused(tmp_path, monkeypatch, add_images):
    monkeypatch.chdir(tmp_path)
    labels = {
        "labels": np.zeros(1, np.int64),
        "is_test": np.zeros(1, bool),
        "class_names": np.array(["a"]),
    }
    np.savez(tmp_path / "source.npz", name=np.array("x"), checksum=np.array("0"), **labels)
    add_images(tmp_path / "source.npz")
    outcome = attempted(lambda: read_source(tmp_path / "source.npz"))
    assert outcome.kind == REFUSED, outcome.text
    assert not (tmp_path / "unpickled").exists()


HUGE_TENSOR = b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}'


@pytest.mark.parametrize(
    ("length", "header"), [(8 << 30, b"{}"), (2**64 - 1, b"{}"), (len(HUGE_TENSOR), HUGE_TENSOR)]
)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_huge_header_of_safetensors_is_refused_in_a_sentence(tmp_path, length, header, is_sparse):
    path = tmp_path / "a.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + header)
    if is_sparse:
        os.truncate(path, 9 << 30)
    for read in (read_tensors, lambda path: read_vectors(path, None, 1, "images")):
        with pytest.raises(UserError, match=r"a\.safetensors: cannot be read as .* header"):
            read(path)


def test_an_image_of_400_million_pixels_is_refused(tmp_path):
    (tmp_path / "huge.png").write_bytes(encoded(Image.new("1", (20_000, 20_000)), "PNG"))
    files = ImageFiles((tmp_path / "huge.png",))
    assert (
        attempted(lambda: cache_images(files, tmp_path / "cache", mode="L", resolution=16)).kind
        == REFUSED
    )
