"""Texts in any script: words, sentences, time limits and vocabularies; a table of Chinese captions
gives class probabilities.
"""

import itertools
import logging
import re
import time
from typing import get_args

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pysbd.lang.common import Common
from pysbd.languages import LANGUAGE_CODES
from sklearn.feature_extraction.text import TfidfVectorizer

from tests.text.corpus import MODEL, SCORING
from trueneg.config.reading import load_configuration
from trueneg.data.pairs.registry import write_captions
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.specs.languages import Language
from trueneg.store.data_input import of_corpora
from trueneg.text import sentences as splitter
from trueneg.text import split_sentences
from trueneg.text.assumption import words_of
from trueneg.text.cleaning import has_words
from trueneg.text.eta import write_class_probabilities
from trueneg.text.language_models import train_language_models
from trueneg.text.scoring import score_sentences
from trueneg.text.sentences import REFERENCE
from trueneg.text.tokenizing import train_tokenizer, unexpressed
from trueneg.text.words import TERM
from trueneg.training.guides.words import WordOverlap

WITH_WORDS = [
    "Edema",
    "正常",
    "心",
    "ひらがな",
    "カ",
    "정상",
    "норма",
    "φυσιολογική",
    "القلب",
    "תקין",
    "ปอด",
    "हृदय",
    "ልብ",
    "é",
    "5 см",
    "XXXX 正常",
]
WITHOUT = [
    "",
    " \n",
    "12",
    "3.5 %",
    "١٢٣",
    "१२",
    "③",
    "Ⅳ",
    "。！？",
    "—",
    "🙂",
    "\u0301",
    "XXXX",
    "XXX",
    "___ XXXXX",
    "3º",
    "\u200d",
]
SENTENCES = {
    "zh": (
        "心脏大小正常。肺部清晰！有积液吗？结节为1.4厘米。",
        ["心脏大小正常。", "肺部清晰！", "有积液吗？", "结节为1.4厘米。"],
    ),
    "ja": (
        "心臓は正常です。胸水はありますか？ありません！",
        ["心臓は正常です。", "胸水はありますか？", "ありません！"],
    ),
    "ru": (
        "Сердце не увеличено. Узел 1.4 см\nслева. Выпота нет!",
        ["Сердце не увеличено.", "Узел 1.4 см слева.", "Выпота нет!"],
    ),
    "ar": (
        "القلب طبيعي. هل توجد كتلة؟ لا يوجد انصباب.",
        ["القلب طبيعي.", "هل توجد كتلة؟", "لا يوجد انصباب."],
    ),
    "el": (
        "Η καρδιά είναι φυσιολογική. Υπάρχει όζος; Όχι.",
        ["Η καρδιά είναι φυσιολογική.", "Υπάρχει όζος;", "Όχι."],
    ),
    "de": (
        "Termin: 3. Januar 2020, z. B. Kein Erguss ...",
        ["Termin: 3. Januar 2020, z. B. Kein Erguss ..."],
    ),
    "hi": ("हृदय सामान्य है। क्या द्रव है? नहीं।", ["हृदय सामान्य है।", "क्या द्रव है?", "नहीं।"]),
    "fr": (
        "Attention : cœur normal. Y a-t-il un nodule ? Non.",
        ["Attention : cœur normal.", "Y a-t-il un nodule ?", "Non."],
    ),
    "ur": (
        "دل نارمل ہے۔ کیا کوئی گانٹھ ہے؟ نہیں۔",
        ["دل نارمل ہے۔", "کیا کوئی گانٹھ ہے؟", "نہیں۔"],
    ),
    "none": (
        "Dr. X. saw it. 正常。\nSame.\n\n12\n\nปอดปกติ",
        ["Dr. X. saw it. 正常。 Same.", "ปอดปกติ"],
    ),
}
CAPTIONS = [
    "心脏大小正常。肺部清晰。",
    "左侧有少量积液。心脏大小正常。",
    "右肺有结节。没有积液。",
    "没有积液。肺部清晰。",
]


@pytest.mark.parametrize("text", WITH_WORDS)
def test_a_letter_of_any_script_is_a_word(text):
    assert has_words(text)


@pytest.mark.parametrize("text", WITHOUT)
def test_numbers_punctuation_emoji_and_marks_are_no_words(text):
    assert not has_words(text)


@pytest.mark.parametrize("language", SENTENCES)
def test_texts_are_split_by_the_rules_of_their_language(language):
    text, expected = SENTENCES[language]
    assert split_sentences(text, language) == expected


def test_lines_of_scripts_without_spaces_are_joined_without_one():
    assert split_sentences("心脏大小\n正常。\r\n肺部\n清晰。\n\n没有积液", "zh") == [
        "心脏大小正常。",
        "肺部清晰。",
        "没有积液",
    ]
    assert split_sentences("Kein\nErguss.", "de") == ["Kein Erguss."]


def test_the_languages_are_those_of_pysbd():
    assert set(get_args(Language)) == {*LANGUAGE_CODES, "none"}


def study(**reports):
    model = {"lm": {"epochs": 1}}
    return {
        "s": {
            "kind": "likelihood",
            "title": "T",
            "reports": {"path": "x", **reports},
            "language_models": model,
        }
    }


@pytest.mark.parametrize("language", ["chinese", "zh-CN", "xx", ""])
def test_an_unknown_language_is_refused_with_those_that_are_known(language):
    with pytest.raises(
        UserError, match=rf"s\.reports\.language is '{language}'; expected 'en'.*'zh' or 'none'"
    ):
        load_configuration(study(source="image_table", table="t", language=language), "study.yaml")
    with pytest.raises(ValueError, match="language"):
        split_sentences("A.", language)


def test_the_default_language_changes_no_job():
    settings = {}
    for language in ("en", "zh"):
        configuration = load_configuration(
            study(source="image_table", table="t", language=language), "study.yaml"
        )
        (reports,) = of_corpora("s", configuration.studies["s"]).values()
        settings[language] = reports.settings
    assert "language" not in settings["en"]
    assert settings["zh"] == {**settings["en"], "language": "zh"}


PARTS = ["[", "]", "1", "12", "123", "1234", ",", ", ", " ", "-", " - ", "  ", "][", "\n", "a"]


@given(
    st.sampled_from([".", "∯", ". "]),
    st.lists(st.sampled_from(PARTS), max_size=8),
    st.sampled_from(["]", ""]),
)
def test_the_pattern_of_references_finds_what_that_of_pysbd_finds(stop, parts, end):
    text = "x" + stop + "[" * bool(end) + "".join(parts) + end + " A"
    assert re.sub(REFERENCE, r"∯\2\r\7", text) == re.sub(
        Common.NUMBERED_REFERENCE_REGEX, r"∯\2\r\7", text
    )


@pytest.mark.parametrize(
    "text",
    [
        "Seen.[" + " ".join(["111"] * 40) + " no end. Clear lungs.",
        "Seen." + "[111 111 111]" * 60 + " clear lungs",
        "Seen.[" + "1-1," * 3000 + "] Lungs",
        "\n" * 100_000 + "Clear lungs.",
        "Clear lungs" + " " * 100_000 + ".",
        "(" * 3000 + "Clear lungs",
    ],
)
def test_unusual_texts_are_split_within_a_second(text):
    began = time.thread_time()
    assert split_sentences(text)
    assert time.thread_time() - began < 2  # exponential time would take years


@pytest.mark.parametrize(
    ("sentence", "length"),
    [("The lungs are clear, e.g. on the left. ", 150_000), ("心脏大小正常。", 20_000)],
)
def test_long_texts_are_split(sentence, length):
    times = length // len(sentence)
    assert split_sentences(sentence * times) == [sentence.strip()] * times
    text = "a b" * (length // 3)  # no sentence ends
    assert "".join(split_sentences(text)).replace(" ", "") == text.replace(" ", "")


def table_of(folder, texts, **settings):
    names = [f"r{number}" for number in range(len(texts))]
    for name in names:
        (folder / name).touch()
    pd.DataFrame({"image": names, "text": texts}).to_csv(folder / "t.csv", index=False)
    where = {
        "source": "image_table",
        "path": folder,
        "table": folder / "t.csv",
        "patient_column": None,
        "restricted": False,
    }
    where |= {"image_column": "image", "text_column": "text", "split_sentences": True}
    paths = {name: folder / f"{name}.parquet" for name in ("sentences", "unique")}
    write_captions(where | settings, **paths, cache=folder / "cache")
    return privacy.read_table(paths["sentences"])[0]["sentence"].tolist()


@pytest.mark.parametrize(("restricted", "name"), [(False, "report r1"), (True, "report 2")])
def test_a_text_that_takes_too_long_is_named(tmp_path, monkeypatch, restricted, name):
    monkeypatch.setattr(splitter, "LIMIT", 0.5)
    slow = "Seen by Dr. A no. 1 today. " * 3000
    with pytest.raises(UserError, match=rf"^{name}: .*0\.5 s.*language to none") as refused:
        table_of(tmp_path, ["Clear lungs.", slow], restricted=restricted)
    assert "Seen" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert (
        len(table_of(tmp_path, ["Clear lungs.", slow], restricted=restricted, language="none")) == 2
    )


def test_each_language_has_its_own_cache_and_a_wrong_one_is_noticed(tmp_path, caplog):
    text = "हृदय सामान्य है। नहीं।"
    with caplog.at_level(logging.WARNING, "trueneg"):
        assert table_of(tmp_path, [text]) == [text]
    assert "most letters" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "trueneg"):
        assert table_of(tmp_path, [text], language="hi") == ["हृदय सामान्य है।", "नहीं।"]
        table_of(tmp_path, ["No effusion in 正常 lungs."])
    assert not caplog.records
    english, other = sorted((path.name for path in (tmp_path / "cache").iterdir()), key=len)
    assert other == f"{english}-hi"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("No 1.4 cm nodule, naïve_x.", ["no", "1", ".", "4", "cm", "nodule", ",", "naïve_x", "."]),
        ("正常，CT扫描", ["正", "常", "，", "ct", "扫", "描"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("ปอดดี", ["ป", "อ", "ด", "ด\u0e35"]),
        ("Нет выпота!", ["нет", "выпота", "!"]),
        ("می‌خواهم", ["می‌خواهم"]),
        ("ガス", ["ガ", "ス"]),
    ],
)
def test_words_keep_their_vowel_signs_and_scripts_without_spaces_have_one_per_character(
    text, words
):
    assert words_of(text) == words


def test_the_overlap_of_words_is_sensible_in_any_script():
    pairs = [
        ("左侧有少量积液", "左侧有大量积液", "心脏正常"),
        ("ปอดปกติ", "ปอดไม่ปกติ", "ลม"),
        ("выпота нет", "нет выпота слева", "сердце"),
    ]
    texts = list(itertools.chain.from_iterable(pairs))
    for first in range(0, len(texts), 3):
        similarity = WordOverlap(texts)(*[torch.arange(first, first + 3)] * 2)
        assert similarity[0, 1] > 0.3
        assert similarity[0, 2] < 0.2


def test_a_text_without_words_overlaps_with_itself_also_beside_hard_negatives():
    texts = ["!", "a dog", "a cat"]
    for columns in ([0, 1], [0, 1, 2]):
        similarity = WordOverlap(texts)(torch.arange(2), torch.tensor(columns))
        assert similarity.diagonal().tolist() == pytest.approx([1, 1])


@given(st.lists(st.text("aB9 .,-_é\nñ$'", max_size=30), min_size=1, max_size=5))
def test_the_words_of_english_texts_are_those_of_scikit_learn(texts):
    expected = [TfidfVectorizer().build_analyzer()(text) for text in texts]
    assert [TERM.findall(text.lower()) for text in texts] == expected
    assert [words_of(text) for text in texts] == [
        re.findall(r"\w+|[^\w\s]", text.lower()) for text in texts
    ]


TEXTS = {
    "zh": ("心脏大小正常，肺部清晰。", list("心脏大小正常，肺部清晰。")),
    "ru": ("Лёгкий йод.", ["лёгкий", "йод", "."]),
    "hi": ("हिन्दी है।", ["हिन्दी", "है", "।"]),
    "ja": ("ガラスです。", ["ガラスです", "。"]),
    "el": ("Η καρδιά", ["η", "καρδιά"]),
    "ar": ("القلب طبيعي", ["القلب", "طبيعي"]),
    "th": ("ปอดปกติ" * 20, ["ปอดปกติ" * 20]),
    "ko": ("심장은 정상", ["심장은", "정상"]),
    "emoji": ("Clear 🫁🫁 lungs", ["clear", "🫁🫁", "lungs"]),
}


@pytest.mark.parametrize("language", TEXTS)
def test_vocabularies_express_any_script_and_are_reproducible(language, tmp_path):
    text, words = TEXTS[language]
    tokenizer = train_tokenizer([text] * 3, 400, 512)
    assert tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])[1:-1] == words
    assert unexpressed([text], tokenizer, 512) == ""
    assert train_tokenizer([text] * 3, 400, 512).get_vocab() == tokenizer.get_vocab()


def test_a_vocabulary_too_small_for_the_characters_is_refused_with_a_remedy():
    characters = [chr(code) for code in range(0x4E00, 0x4E00 + 3000)]
    with pytest.raises(
        ValueError, match=r"vocabulary is 2048; expected at least (\d+).*Raise it"
    ) as refused:
        train_tokenizer(characters, 2048, 64)
    least = int(re.search(r"at least (\d+)", str(refused.value))[1])
    assert 3000 < least < 3200  # each Chinese character is one token, not two
    assert unexpressed(characters, train_tokenizer(characters, least, 64), 64) == ""


def test_what_a_vocabulary_cannot_express_is_counted():
    tokenizer = train_tokenizer(["no effusion."], 200, 10)
    assert unexpressed(["No effusion."], tokenizer, 5) == ""
    message = unexpressed(["No effusion.", "正常", "a b c d"], tokenizer, 5)
    assert "1 of 3 texts have more than 5 tokens" in message
    assert f"{2 / (3 + 2 + 4):.2%} of the tokens are unknown" in message


def test_a_table_of_chinese_captions_gives_class_probabilities(tmp_path, caplog):
    count = 40
    (tmp_path / "images").mkdir()
    for number in range(count):
        (tmp_path / f"images/{number}.png").touch()
    # characters that occur once
    texts = [CAPTIONS[number % len(CAPTIONS)] for number in range(count - 1)] + ["龘齉。"]
    columns = {
        "image": [f"{number}.png" for number in range(count)],
        "text": texts,
        "patient": range(count),
    }
    pd.DataFrame(columns).to_csv(tmp_path / "table.csv", index=False)
    settings = {
        "source": "image_table",
        "path": tmp_path / "images",
        "table": tmp_path / "table.csv",
        "restricted": False,
    }
    settings |= {f"{name}_column": name for name in ("image", "text", "patient")}
    paths = {
        name: tmp_path / f"{name}.parquet" for name in ("sentences", "unique", "likelihoods", "eta")
    }
    chosen = {name: paths[name] for name in ("sentences", "unique")}
    write_captions(
        settings | {"split_sentences": True, "language": "zh"}, **chosen, cache=tmp_path / "split"
    )
    sentences = privacy.read_table(paths["sentences"])[0]["sentence"]
    assert set(sentences) == {
        "心脏大小正常。",
        "肺部清晰。",
        "左侧有少量积液。",
        "右肺有结节。",
        "没有积液。",
        "龘齉。",
    }
    model = MODEL | {"vocabulary": 200, "hidden": 8, "epochs": 1}
    train_language_models(
        paths["sentences"],
        settings=model,
        seed=0,
        store=tmp_path / "store",
        manifest=tmp_path / "m.json",
    )
    where = {
        "models": tmp_path / "m.json",
        "cache": tmp_path / "scores",
        "likelihoods": paths["likelihoods"],
    }
    with caplog.at_level(logging.WARNING, "trueneg"):
        score_sentences(paths["sentences"], settings=SCORING, **where)
    assert "unknown to the vocabulary" in caplog.text
    settings = {"a": 0.2, "k": 0.35, "maximum": 0.9, "per_token": False}
    write_class_probabilities(paths["likelihoods"], settings=settings, seed=0, eta=paths["eta"])
    eta = privacy.read_table(paths["eta"])[0]["eta"]
    assert len(eta) == len(sentences)
    assert eta.between(0, 0.9, inclusive="neither").all()
