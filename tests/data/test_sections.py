"""Sections and cleaning, on hand-written reports that resemble real ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.data.reports.sections import parse_sections
from trueneg.text.cleaning import clean, normalised

HOSPITAL = """                                 FINAL REPORT
 EXAMINATION:  CHEST (PA AND LAT)

 INDICATION:  ___F with new cough  // eval for infection

 TECHNIQUE:  Chest PA and lateral

 COMPARISON:  None.

 FINDINGS:

 The heart is mildly
 enlarged.  There is no
 pleural effusion.

 LINES AND TUBES: A feeding tube ends in the stomach.

 IMPRESSION:

 1.  Mild cardiomegaly.
 2.  No effusion.

 NOTIFICATION:  Dr. ___ was told at 3:00 pm.
"""


def test_a_report_in_the_usual_layout():
    assert {name: clean(text) for name, text in parse_sections(HOSPITAL).items()} == {
        "findings": "The heart is mildly enlarged. There is no pleural effusion.\n"
        "LINES AND TUBES: A feeding tube ends in the stomach.",
        "impression": "Mild cardiomegaly. No effusion.",
    }


FINDINGS_HEADERS = (
    *(
        "FINDINGS:",
        "FINDING:",
        "Findings:",
        "FINDNGS:",
        "FIDINGS:",
        "CHEST FINDINGS:",
        "REPORT:",
        "FINDINGS AND IMPRESSION:",
    ),
    *(
        "FINDINGS/IMPRESSION:",
        "PA AND LATERAL VIEWS OF THE CHEST:",
        "PORTABLE AP CHEST RADIOGRAPH:",
        "FINDINGS",
    ),
)
IMPRESSION_HEADERS = (
    *(
        "IMPRESSION:",
        "IMPRESSIONS:",
        "Impression:",
        "IMPRESION:",
        "IMPRSSION:",
        "FINAL IMPRESSION:",
        "CONCLUSION:",
    ),
    *("OPINION :", "IMPRESSION"),
)
SECTION_OF = dict.fromkeys(FINDINGS_HEADERS, "findings") | dict.fromkeys(
    IMPRESSION_HEADERS, "impression"
)


@pytest.mark.parametrize("header", SECTION_OF)
def test_spellings_of_headers(header):
    sections = parse_sections(
        f"INDICATION: Cough.\n\n {header}\n Clear lungs.\n\nTECHNIQUE: Two views."
    )
    assert sections == {SECTION_OF[header]: "Clear lungs."}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("  \n ", {}),
        ("Clear lungs. No effusion.", {"findings": "Clear lungs. No effusion."}),
        (
            "INDICATION: Cough.\n\nCOMPARISON: None.\n\nThe lungs are clear.",
            {"last paragraph": "The lungs are clear."},
        ),
        ("FINDINGS:\n\nIMPRESSION: Normal.", {"impression": "Normal."}),
        (
            "IMPRESSION: Old.\n\nADDENDUM: Seen again.\n\nIMPRESSION: New.",
            {"impression": "Old.\n\nNew."},
        ),
        (
            "FINDINGS: Clear.\nHEART: Normal.\nHISTORY: Cough.",
            {"findings": "Clear.\nHEART: Normal."},
        ),
        ("CHEST, TWO VIEWS: Clear.\n\nFINDINGS: Effusion.", {"findings": "Effusion."}),
        ("INDICATION:\n\nFINDINGS:\n", {}),
        ("INDICATION: Cough and fever.", {}),
    ],
)
def test_reports_with_missing_sections(text, expected):
    assert parse_sections(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1. Clear.\n2. Normal heart.", "Clear. Normal heart."),
        ("1) Clear. 2) Normal heart.", "Clear. Normal heart."),
        ("1.Clear lungs. 2.Normal heart.", "Clear lungs. Normal heart."),
        ("1. Cardiomegaly 2. No edema 3. No effusion", "Cardiomegaly. No edema. No effusion"),
        ("Chest 1. Clear 2. Normal", "Chest. Clear. Normal"),
        ("1. 8 mm nodule. 2. 1.4 cm mass.", "8 mm nodule. 1.4 cm mass."),
        ("Fracture of rib 4. The heart is normal.", "Fracture of rib 4. The heart is normal."),
        ("A nodule of 2.5 cm at T4. 2 views.", "A nodule of 2.5 cm at T4. 2 views."),
        ("No effusion.Heart is normal.", "No effusion. Heart is normal."),
        ("Heart XXXX.In the lung", "Heart XXXX. In the lung"),
        ("Clear.. Normal . .", "Clear. Normal."),
        ("a nodule of .5 cm", "a nodule of .5 cm"),
        ("The ___ is ___ ____ clear, ___ XXXX.", "The XXXX is XXXX clear, XXXX."),
        ("Clear.\n______\nADDENDUM seen", "Clear.\nADDENDUM seen"),
        ("XXXX XXXX.", ""),
        ("x-XXXX of the chest", "x-XXXX of the chest"),
        ("12 34.", ""),
    ],
)
def test_cleaning(text, expected):
    assert clean(text) == expected


@settings(deadline=None, max_examples=100)
@given(st.text(alphabet="aZ1.2)( X_\n:;,'-", max_size=60))
def test_cleaning_adds_no_words_and_reaches_a_fixed_point(text):
    cleaned = clean(text)
    assert cleaned.count("a") <= text.count("a")
    assert "\n\n" not in cleaned
    assert "___" not in cleaned
    assert cleaned == cleaned.strip()
    # A list within a list is removed in two steps; after that, nothing changes.
    assert clean(clean(cleaned)) == clean(clean(clean(cleaned)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No effusion.", "no effusion"),
        (" NO\u00a0\tEffusion\n!?… ", "no effusion"),
        ("Ｎｏ　ｅｆｆｕｓｉｏｎ．", "no effusion"),
        ("没有积液。", "没有积液"),
        ("有积液吗？！", "有积液吗"),
        ("Straße", "strasse"),
        ("2.5 cm", "2.5 cm"),
        ("(stable)", "(stable)"),
        ("…", "…"),
        (" ?! ", " ?! "),
    ],
)
def test_normalised_texts_lack_case_repeated_spaces_and_final_punctuation(text, expected):
    assert normalised(text) == expected


@given(st.text())
def test_a_normalised_text_stays_the_same(text):
    assert bool(normalised(text)) == bool(text)
    assert normalised(normalised(text)) == normalised(text)
