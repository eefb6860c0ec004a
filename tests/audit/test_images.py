"""Images by class and images with captions, beside plain loops over all pairs."""

import base64
import io
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.clips import tiny_clip, write_clip
from tests.data.pictures import encoded, picture, write_picture
from trueneg.cli.main import main

VECTORS = "{name: vectors, path: vectors.npy}"
CLASSES = ("cat", "dog", "owl")
BROKEN = Path("pets/dog/05_broken.png")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def audit(capsys, *arguments):
    """Run an audit; return what it prints."""
    assert main(["audit", *arguments]) == 0
    return capsys.readouterr().out


def refusal(capsys, *arguments):
    assert main(["audit", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    return line


def drawn_vectors(count, seed=0):
    """Vectors of unit length, written to a file in float32."""
    values = np.random.default_rng(seed).normal(size=(count, 5)).astype(np.float32) + 0.7
    np.save("vectors.npy", values)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def write_pets():
    """Class folders of ten images each: one cannot be read, two of a class have the same pixels,
    and one is in two classes.
    """
    for number, (name, place) in enumerate(itertools.product(CLASSES, range(10))):
        write_picture(Path(f"pets/{name}/{place:02}.png"), number, width=24, height=24)
    BROKEN.write_bytes(Path("pets/dog/05.png").read_bytes()[:200])
    Path("pets/dog/05.png").unlink()
    with Image.open("pets/cat/03.png") as image:
        image.save("pets/cat/04.png", compress_level=0)  # another file with the same pixels
    Path("pets/owl/02.png").write_bytes(Path("pets/cat/07.png").read_bytes())


def pictures_in(page):
    """The images that are embedded in a page."""
    found = re.findall(r'<img src="data:image/webp;base64,([^"]+)" alt="">', page)
    return [Image.open(io.BytesIO(base64.b64decode(each))) for each in found]


def test_images_by_class_are_known_by_their_pixels_and_classes(capsys):
    write_pets()
    files = sorted(Path("pets").rglob("*.png"))
    values = drawn_vectors(len(files))
    readable = [place for place, file in enumerate(files) if file != BROKEN]
    printed = audit(capsys, "pets", "--encoder", VECTORS, "--mine", "--batch", "8")
    assert printed.count("\n") <= 15
    assert f"1 image that cannot be read: {BROKEN}" in printed
    assert "2 images with the same pixels as an earlier image" in printed
    assert "pets/cat/03.png and pets/cat/04.png" in printed
    assert "1 image with different labels" in printed
    assert "(cat, owl)" in printed
    # one vector per image; of equal images, that of the first
    by_pixels = {}
    representative = {}
    labels = {}
    for place in readable:
        with Image.open(files[place]) as image:
            own = by_pixels.setdefault(image.tobytes(), place)
        representative[place] = own
        labels.setdefault(own, set()).add(files[place].parent.name)
    numbers = list(labels)
    cosines = (values[numbers] @ values[numbers].T).round(4)
    pairs = []
    for anchor, own in enumerate(numbers):
        others = sorted((-cosines[anchor, place], place) for place in range(len(numbers)))
        others = [(-distance, place) for distance, place in others if place != anchor]
        pairs += [
            (similarity, rank, bool(labels[own] & labels[numbers[place]]))
            for rank, (similarity, place) in enumerate(others, 1)
        ]
    by_rank = pd.read_csv("pets_audit/by_rank.csv", index_col="rank")
    inside = [is_false for _, rank, is_false in pairs if 2 <= rank <= 5]
    assert by_rank.loc["2–5"].tolist() == pytest.approx([len(inside)] * 2 + [np.mean(inside)])
    similar = pd.read_csv("pets_audit/most_similar_pairs.csv")
    most = max(similarity for similarity, _, is_false in pairs if not is_false)
    assert similar["similarity"].iloc[0] == pytest.approx(most, abs=1e-4)
    # random batches have all files, equal ones too
    everything = [
        (
            float((values[representative[one]] @ values[representative[other]]).round(4)),
            files[one].parent == files[other].parent
            or representative[one] == representative[other],
        )
        for one, other in itertools.permutations(readable, 2)
    ]
    by_filter = pd.read_csv("pets_audit/by_filter.csv")
    assert by_filter["false"][0] == pytest.approx(np.mean([same for _, same in everything]))
    threshold = 0.5
    line = by_filter[by_filter["filter"].str.startswith(f"threshold={threshold} ")].iloc[0]
    left = [same for similarity, same in everything if similarity <= threshold]
    false = sum(same for _, same in everything)
    true = len(everything) - false
    expected = [
        len(left) / len(everything),
        np.mean(left),
        1 - sum(left) / false,
        1 - (len(left) - sum(left)) / true,
    ]
    assert line.iloc[1:].astype(float).tolist() == pytest.approx(expected, abs=3 / len(everything))
    in_batch = np.mean(
        [
            files[one].parent == files[other].parent or representative[one] == representative[other]
            for one, other in itertools.permutations(readable, 2)
        ]
    )
    assert f"random batch of 8, {100 * in_batch:.3g} %" in printed
    page = Path("pets_audit/index.html").read_text(encoding="utf-8")
    assert len(pictures_in(page)) == 2 * len(similar)
    assert str(BROKEN) in pd.read_csv("pets_audit/unreadable_images.csv")["image"].tolist()


def test_shares_that_are_unknown_are_not_said_of_a_filter(capsys):
    for number in range(4):
        write_picture(Path(f"pets/cat/{number}.png"), number, width=24, height=24)
    BROKEN.parent.mkdir()
    BROKEN.write_bytes(b"no image")  # leaves one class
    np.save("vectors.npy", np.eye(5, dtype=np.float32) + 2)  # of cosines above 0.5
    printed = audit(capsys, "pets", "--encoder", VECTORS, "--mine")
    nothing = "threshold=0.5 in random batches leaves 0 %; removes 100 % of the false ones\n"
    assert nothing in printed
    assert "leaves 100 %, 100 % of them false; removes 0 % of the false ones\n" in printed
    assert "nan" not in printed


def test_images_of_other_splits_are_not_audited(capsys):
    places = [("train", "cat", 10), ("train", "dog", 10), ("test", "cat", 2), ("test", "dog", 15)]
    names = [(f"{split}/{name}", n) for split, name, count in places for n in range(count)]
    for number, (place, n) in enumerate(names):
        write_picture(Path(f"pets/{place}/{n:02}.png"), number, width=24, height=24)
    copied = "pets/test/dog/03.png"
    Path(copied).write_bytes(Path("pets/train/dog/04.png").read_bytes())
    drawn_vectors(len(names))
    printed = audit(capsys, "pets", "--encoder", VECTORS, "--mine")
    assert "not audited: 17 images of other splits" in printed
    shared = f"1 of 17 test samples have the same images as samples of train, such as “{copied}”"
    assert f"{shared}; left out: 1 of train" in printed
    assert "certain without a model: nothing" in printed
    false = (10 * 9 + 9 * 8) / (19 * 18)
    assert f"random batch of 19, {100 * false:.3g} %" in printed
    by_filter = pd.read_csv("pets_audit/by_filter.csv")
    assert by_filter["false"][0] == pytest.approx(false)
    assert pd.read_csv("pets_audit/by_rank.csv")["negatives"].sum() == 19 * 18
    similar = pd.read_csv("pets_audit/most_similar_pairs.csv")
    assert similar[["anchor", "negative"]].stack().str.startswith("pets/train/").all()


def test_images_of_a_parquet_file_are_audited_as_those_of_a_folder(capsys):
    rows = [
        {
            "image": {"bytes": encoded(picture(number, 24, 24)), "path": ""},
            "title": f"picture number {number}",
            "label": number % 2,
        }
        for number in range(12)
    ]
    pq.write_table(pa.Table.from_pylist(rows), "pets.parquet")
    printed = audit(capsys, "pets.parquet")
    assert "12 images of 2 classes" in printed
    known = 5 / 11
    assert f"random batch of 12, {100 * known:.3g} %" in printed
    assert "--mine" in printed
    assert "not used: title" in printed
    assert not Path("pets_audit").exists()
    printed = audit(capsys, "pets.parquet", "--text", "title")
    assert 'texts: title, such as "picture number 0"' in printed


def test_a_network_of_timm_compares_the_images(capsys):
    timm = pytest.importorskip("timm", reason="compares with timm's own network")
    torch = pytest.importorskip("torch")
    from trueneg.training.frozen import build_tower

    write_pets()
    settings = {"name": "timm", "model": "test_resnet", "weights": "none", "resolution": 32}
    audit(capsys, "pets", "--mine", "--encoder", json.dumps(settings))
    similar = pd.read_csv("pets_audit/most_similar_pairs.csv")
    made_of = {"training": {"kind": "images"}, "encoder": {**settings, "train": "none"}}
    tower = build_tower(made_of, "encoder")
    assert isinstance(tower.network, type(timm.create_model("test_resnet")))
    for line in similar.head(3).itertuples():
        ends = []
        for file in (line.anchor, line.negative):
            image = Image.open(file).convert("RGB").resize((32, 32), Image.Resampling.BICUBIC)
            pixels = torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy())[None] / 255
            with torch.inference_mode():
                ends.append(tower(pixels).pooled[0])
        cosine = torch.nn.functional.cosine_similarity(*ends, dim=0)
        assert line.similarity == pytest.approx(cosine.item(), abs=2e-4)


def write_captions(count=40):
    """A table of images with one or two captions; two images share one, and two share pixels."""
    lines = []
    for number in range(count):
        write_picture(Path(f"photos/{number:02}.jpg"), number % (count - 1))
        lines.append((f"{number:02}.jpg", f"a picture with the number {number}"))
        if number % 4 == 0:
            lines.append((f"{number:02}.jpg", f"another view of scene {number}"))
    lines.append(("07.jpg", "A picture with the number 9."))
    table = pd.DataFrame(lines, columns=["file", "caption"])
    table.to_csv("captions.csv", index=False)
    return table


def test_captions_are_compared_with_the_mean_of_an_images_own_and_rated(capsys):
    table = write_captions()
    texts = list(dict.fromkeys(table["caption"].str.lower().str.rstrip(".")))
    values = dict(zip(texts, drawn_vectors(len(texts)), strict=True))
    broken = Path("photos/20.jpg")
    broken.write_bytes(b"no image")
    np.save("vectors.npy", np.stack([v for t, v in values.items() if not t.endswith(" 20")]))
    command = ["captions.csv", "--images", "photos", "--encoder", VECTORS, "--mine"]
    printed = audit(capsys, *command, "--pairs", "30")
    assert printed.count("\n") <= 15
    assert f"1 image that cannot be read: {broken}" in printed
    assert "1 image with the same pixels as an earlier image" in printed
    assert "1 text of several images" in printed
    assert "picture with the number 9" in printed
    usable = table[table["file"] != "20.jpg"]
    forms = usable["caption"].str.lower().str.rstrip(".")
    # photos 00 and 39 have the same pixels
    own = forms.groupby(usable["file"].replace("39.jpg", "00.jpg")).agg(set)
    cosines = {}
    for file, captions in own.items():
        mean = np.mean([values[text] for text in captions], axis=0)
        mean /= np.linalg.norm(mean)
        for text in set(forms) - captions:
            cosines[f"photos/{file}", text] = float(mean @ values[text])
    similar = pd.read_csv("captions_audit/most_similar_pairs.csv")
    most = sorted(cosines.values(), reverse=True)[: len(similar)]
    assert similar["similarity"].tolist() == pytest.approx(most, abs=2e-4)
    negatives = similar["negative"].str.lower().str.rstrip(".")
    of_pairs = [cosines[pair] for pair in zip(similar["anchor"], negatives, strict=True)]
    assert similar["similarity"].tolist() == pytest.approx(of_pairs, abs=2e-4)
    sample = pd.read_csv("captions_audit/sample.csv", keep_default_na=False)
    assert len(sample) == 30
    assert sample["anchor"].is_unique
    page = Path("captions_audit/rate.html").read_text(encoding="utf-8")
    shown = pictures_in(page)
    assert len(shown) == 30
    assert {image.size for image in shown} == {(40, 30)}
    assert "Does the text of another image describe this image, too?" in page
    sample.assign(false=["y", "n", "u"] * 10).to_csv("rated.csv", index=False)
    rated = audit(capsys, "captions.csv", "--ratings", "rated.csv")
    assert "30 rated, 10 unsure" in rated
    thresholds = pd.read_csv("captions_audit/rated/thresholds.csv")
    pairs = pd.read_parquet("captions_audit/pairs.parquet")
    for line in thresholds.itertuples():
        assert line.removed == pytest.approx((pairs["similarity"] > line.threshold).mean())
        assert f"threshold={line.threshold} removes" in rated


def test_captions_of_other_splits_are_not_audited(capsys):
    table = write_captions()
    is_test = table["file"] >= "30.jpg"
    table.assign(split=np.where(is_test, "test", "train")).to_csv("captions.csv", index=False)
    drawn_vectors(table["caption"].str.lower().str.rstrip(".").nunique())
    command = ["captions.csv", "--images", "photos", "--encoder", VECTORS, "--mine"]
    printed = audit(capsys, *command)
    assert "not audited: 10 images of other splits" in printed
    # photos 00 and 39 have the same pixels
    assert "such as “photos/39.jpg”; left out: 1 of train" in printed
    assert "random batch of 29" in printed
    similar = pd.read_csv("captions_audit/most_similar_pairs.csv")
    images = similar[["anchor", "negative's image"]].stack()
    assert images.between("photos/01.jpg", "photos/29.jpg").all()
    printed = audit(capsys, *command, "--split", "none", "--out", "all")
    assert "random batch of 40" in printed


def test_a_network_of_open_clip_compares_captions_with_the_images(capsys, tmp_path):
    open_clip = pytest.importorskip("open_clip", reason="compares with open_clip's own network")
    torch = pytest.importorskip("torch")

    write_captions(12)
    network = tiny_clip()
    tower = {"name": "open_clip", **write_clip(tmp_path, network)}
    printed = audit(
        capsys, "captions.csv", "--images", "photos", "--mine", "--encoder", json.dumps(tower)
    )
    assert "images are compared with texts by" in printed
    similar = pd.read_csv("captions_audit/most_similar_pairs.csv")
    mean = torch.tensor(open_clip.OPENAI_DATASET_MEAN).view(3, 1, 1)
    std = torch.tensor(open_clip.OPENAI_DATASET_STD).view(3, 1, 1)
    for line in similar.head(3).itertuples():
        image = Image.open(line.anchor).convert("RGB").resize((64, 64), Image.Resampling.BICUBIC)
        pixels = torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy()) / 255
        tokens = open_clip.SimpleTokenizer(context_length=24)([line.negative])
        with torch.inference_mode():
            ends = (
                network.encode_image(((pixels - mean) / std)[None], normalize=True),
                network.encode_text(tokens, normalize=True),
            )
        assert line.similarity == pytest.approx((ends[0] * ends[1]).sum().item(), abs=2e-3)


def test_options_and_files_that_do_not_fit_images_are_refused(capsys):
    write_pets()
    write_captions(8)
    Path("empty").mkdir()
    for number in range(2):
        folder = Path(f"noise/{CLASSES[number]}")
        folder.mkdir(parents=True)
        (folder / "0.png").write_bytes(b"no image")
    captions = ["captions.csv", "--images", "photos"]
    for arguments, named in (
        (["empty"], "empty"),
        (["noise"], "0 usable images"),
        (["noise"], "noise/cat/0.png"),
        (["pets", "--text", "caption"], "--text"),
        (["pets", "--negative", "caption"], "--negative"),
        (["pets", "--images", "pets"], "--images"),
        (["pets", "--out", "pets/audit"], "pets/audit"),
        (["pets", "--mine", "--encoder", "{name: sentence_transformers, model: x}"], "--encoder"),
        ([*captions, "--positive", "caption"], "--positive"),
        ([*captions, "--label", "caption"], "--label"),
        ([*captions, "--image", "none"], "none"),
        (["captions.csv", "--images", "nowhere"], "nowhere"),
        (["captions.csv", "--images", "empty"], "empty lacks all 8 images"),
        (["captions.csv", "--image", "file"], "--image"),
        (["captions.csv"], "--images"),
    ):
        assert named in refusal(capsys, *arguments)
    for arguments in (["pets", "--out", "other"], ["captions.csv", "--out", "other.csv"]):
        assert main(["clean", *arguments]) == 1
        assert "not cleaned" in capsys.readouterr().err
