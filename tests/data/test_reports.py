"""Every report of every source has a state, and unreadable reports have a reason."""

import gzip
import io
import tarfile

import pytest

from trueneg.data.reports import open_i
from trueneg.data.reports.prepare import prepare_reports
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.text.sentences import split_sentences

XML = """<?xml version="1.0" encoding="utf-8"?>
<eCitation><uId id="CXR{number}"/><MedlineCitation><Article><Abstract>
<AbstractText Label="COMPARISON">None.</AbstractText>
<AbstractText Label="INDICATION">Cough.</AbstractText>
<AbstractText Label="FINDINGS">{findings}</AbstractText>
<AbstractText Label="IMPRESSION">{impression}</AbstractText>
</Abstract></Article></MedlineCitation><MeSH>{codes}</MeSH></eCitation>"""


def archive(path, reports):
    """Write an archive in the layout of torchxrayvision's."""
    with tarfile.open(path, "w:gz") as file:
        for number, content in reports.items():
            data = content.encode()
            member = tarfile.TarInfo(f"ecgen-radiology/{number}.xml")
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))


def read(settings, path):
    prepare_reports(settings, path)
    table, restricted = privacy.read_table(path)
    return table.set_index("report"), restricted


@pytest.fixture
def open_i_archive(tmp_path):
    path = tmp_path / open_i.ARCHIVE
    codes = (
        "<major>Cardiomegaly/mild</major><major>Pulmonary Edema"
        " </major><automatic>edema</automatic>"
    )
    reports = {
        10: XML.format(
            number=10,
            findings="Clear lungs.",
            impression="1. Normal.",
            codes="<major>normal</major>",
        ),
        2: XML.format(number=2, findings="", impression="Cardiomegaly &amp; edema.", codes=codes),
        3: XML.format(number=3, findings="", impression="", codes="<major>No Indexing</major>"),
        4: "<eCitation><broken",
    }
    archive(path, reports)
    return path


def test_open_i(open_i_archive, tmp_path):
    table, restricted = read(
        {"source": "open_i", "path": str(tmp_path)}, tmp_path / "reports.parquet"
    )
    assert not restricted
    assert table.index.tolist() == ["CXR2", "CXR3", "CXR4", "CXR10"]
    assert table["state"].tolist() == ["used", "empty", "unreadable", "used"]
    assert table.loc["CXR10", "text"] == "Clear lungs.\n\nNormal."
    assert table.loc["CXR10", "sections"] == "findings + impression"
    assert table.loc["CXR2", "text"] == "Cardiomegaly & edema."
    assert table.loc["CXR4", "reason"] == "invalid XML"


def test_the_codes_of_open_i(open_i_archive):
    codes = open_i.image_codes(open_i_archive)
    assert codes.groupby("report")["code"].agg(list).to_dict() == {
        "CXR2": ["Cardiomegaly/mild", "Pulmonary Edema"],
        "CXR3": ["No Indexing"],
        "CXR10": ["normal"],
    }


def test_damaged_and_missing_archives_are_reported(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"NLMCXR_reports\.tgz not found"):
        open_i.find_archive(tmp_path)
    (tmp_path / open_i.ARCHIVE).write_bytes(b"\x1f\x8b broken")
    with pytest.raises(UserError, match="the archive of reports"):
        prepare_reports({"source": "open_i", "path": str(tmp_path)}, tmp_path / "r.parquet")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install torchxrayvision"):
        open_i.find_archive()


def test_a_damaged_header_does_not_end_the_archive_unsaid(tmp_path):
    path = tmp_path / open_i.ARCHIVE
    reports = {
        number: XML.format(number=number, findings="Clear.", impression="", codes="")
        for number in range(1, 9)
    }
    archive(path, reports)
    whole = gzip.decompress(path.read_bytes())
    damaged = whole.replace(b"ecgen-radiology/5.xml", b"ecgen-radiology/4.xml")
    checksum = gzip.compress(whole)[-8:]
    path.write_bytes(gzip.compress(damaged)[:-8] + checksum)
    with pytest.raises(UserError, match=r"CRC check failed.*get the whole archive"):
        list(open_i.read_archive(path))


def test_mimic_cxr_in_its_official_layout(tmp_path):
    folder = tmp_path / "files" / "p10" / "p10000032"
    folder.mkdir(parents=True)
    (folder / "s50414267.txt").write_text(
        " FINDINGS:\n Clear lungs.\n\n IMPRESSION:\n Normal ___.\n"
    )
    (folder / "s50414268.txt").write_text(" INDICATION: ___\n")
    (folder / "s50414269.txt").write_bytes(b" FINDINGS: \xff\xfe\x00")
    table, restricted = read(
        {"source": "mimic_cxr", "path": str(tmp_path)}, tmp_path / "reports.parquet"
    )
    assert restricted
    assert table["patient"].unique().tolist() == ["p10000032"]
    assert table["state"].tolist() == ["used", "empty", "unreadable"]
    assert table.loc["s50414267", "text"] == "Clear lungs.\n\nNormal XXXX."
    other = folder.with_name("p10000033")
    other.mkdir()
    (other / "s50414268.txt").write_text(" FINDINGS:\n Clear lungs.\n")
    with pytest.raises(UserError, match="1 duplicate report ids, first in row 3") as error:
        prepare_reports({"source": "mimic_cxr", "path": str(tmp_path)}, tmp_path / "r.parquet")
    assert "s50414268" not in str(error.value)  # restricted
    with pytest.raises(UserError, match=r"files/p1\?/p\*/s\*.txt is missing.*found p10000032"):
        prepare_reports(
            {"source": "mimic_cxr", "path": str(tmp_path / "files" / "p10")}, tmp_path / "r.parquet"
        )


def test_sections_without_a_final_full_stop_stay_separate(tmp_path):
    content = XML.format(
        number=1, findings="Heart size normal", impression="No acute disease.", codes=""
    )
    archive(tmp_path / open_i.ARCHIVE, {1: content})
    table, _ = read({"source": "open_i", "path": str(tmp_path)}, tmp_path / "reports.parquet")
    assert split_sentences(table["text"].iloc[0]) == ["Heart size normal", "No acute disease."]
