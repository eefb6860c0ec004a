"""Train sentence encoders from scratch on Bible verses in two translations, with and without correction for false negatives."""

import argparse
import importlib
import re
import tempfile
from collections import Counter, defaultdict

import numpy as np
from datasets import Dataset, disable_progress_bars
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import ttest_1samp
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import PrinterCallback, TrainerCallback, set_seed

from trueneg.evaluation.retrieval import ranks
from trueneg.losses import Debiased, Guided, Oracle, Uncorrected
from trueneg.losses.adapters import RankingLoss
from trueneg.text.tokenizing import train_tokenizer

ANCHOR, POSITIVE, THIRD = "ylt", "web", "kjv"  # Young's Literal Translation, World English Bible, King James Version
ESTIMATORS = {  # by the share of false negatives among the pairs of training verses
    "CL": lambda share: Uncorrected(),
    "Debiased": lambda share: Debiased(class_probability=share),
    "Debiased, η = 0.01": lambda share: Debiased(class_probability=0.01),
    "Guided-EMA": lambda share: Guided(),
    "Oracle": lambda share: Oracle(),
}


class MovingAverage(TrainerCallback):
    """A guide: the exponential moving average of the trained model, updated after every step."""

    def __init__(self, model, momentum=0.99):
        self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(momentum)).requires_grad_(False)

    def on_step_end(self, args, state, control, model=None, **others):
        self.average.update_parameters(model)


def read_verses():
    """Return the texts of each verse in the three translations, without verses that one of them lacks."""
    modules = [f"pythonbible_{name}.plain_text_readers_bible" for name in (ANCHOR, POSITIVE, THIRD)]
    bibles = [importlib.import_module(module).bible for module in modules]
    verses = sorted(set.intersection(*(set(bible.get_verse_ids()) for bible in bibles)))
    texts = [[" ".join(bible.get_scripture(verse).split()) for bible in bibles] for verse in verses]
    return np.array([each for each in texts if all(each)], dtype=object)


def pairs_that_say_the_same(texts, threshold=0.8):
    """Return the pairs (i, j), i < j, of texts whose words have at least this Jaccard similarity, |x ∩ y| / |x ∪ y|.

    Such texts share one of the ⌊(1 − threshold)·|x|⌋ + 1 rarest words of x and of y, so no other pair is compared.
    """
    words = [set(re.findall(r"\w+", text.lower())) for text in texts]
    count = Counter(word for each in words for word in each)
    with_word, found = defaultdict(list), []
    for j, each in enumerate(words):
        rarest = sorted(each, key=lambda word: (count[word], word))[: int((1 - threshold) * len(each) + 1e-9) + 1]
        for i in {i for word in rarest for i in with_word[word]}:
            if len(each & words[i]) >= threshold * len(each | words[i]) - 1e-9:
                found.append((i, j))
        for word in rarest:
            with_word[word].append(j)
    return sorted(found)


def split(texts, verses, seed):
    """Draw verses and hold out a third of them, but for those that say the same as a training verse.

    Returns the training verses; their classes, for the oracle; the share of their pairs that say the same; the H held-out verses;
    and (H, H) bool, which of these are or say the same.
    """
    drawn = texts[np.random.default_rng(seed).permutation(len(texts))[:verses]]
    same = np.eye(len(drawn), dtype=bool)
    for i, j in pairs_that_say_the_same(drawn[:, 2]):
        same[i, j] = same[j, i] = True
    count = len(drawn) - len(drawn) // 3
    held_out = count + np.flatnonzero(~same[count:, :count].any(1))
    share = (same[:count, :count].sum() - count) / count / (count - 1)
    classes = connected_components(csr_array(same[:count, :count]))[1]
    return drawn[:count], classes, share, drawn[held_out], same[np.ix_(held_out, held_out)]


def new_encoder(texts, seed):
    """Return an encoder that averages embeddings of word pieces, with random weights and its own vocabulary."""
    tokenizer = train_tokenizer([*texts[:, 0], *texts[:, 1]], vocabulary=8000, longest=512)
    set_seed(seed)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=128)], device="cpu")


def train(estimator, texts, classes, seed, epochs):
    """Return a trained encoder."""
    model = new_encoder(texts, seed)
    average = MovingAverage(model)
    loss = RankingLoss(model, estimator, guide=average.average if isinstance(estimator, Guided) else None)
    pairs = Dataset.from_dict({"anchor": list(texts[:, 0]), "positive": list(texts[:, 1]), "label": classes})
    settings = {"learning_rate": 0.1, "num_train_epochs": epochs, "per_device_train_batch_size": 64, "seed": seed}
    quiet = {"report_to": "none", "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(folder, use_cpu=True, dataloader_drop_last=True, **settings, **quiet)
        trainer = SentenceTransformerTrainer(model, arguments, pairs, loss=loss, callbacks=[average])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return model


def retrieval(model, texts, relevant):
    """Return R@1 and the mean reciprocal rank of a verse's other translation among all held-out verses, in per cent."""
    anchors, positives = (model.encode(list(column), normalize_embeddings=True) for column in texts[:, :2].T)
    rank = ranks(anchors @ positives.T, relevant)
    return 100 * np.array([(rank == 1).mean(), (1 / rank).mean()])


def compared(values, baseline):
    """Format the mean over seeds, and the mean difference to the baseline with its 95 % paired t interval if it varies."""
    differences = np.subtract(values, baseline)
    text = f"{np.mean(values):.2f} | {differences.mean():+.2f}"
    if np.ptp(differences) > 0:
        text += " [{:+.2f}, {:+.2f}]".format(*ttest_1samp(differences, 0).confidence_interval(0.95))
    return text.replace("-", "−")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verses", type=int, default=12000, help="verses drawn for each seed, a third of them held out")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    disable_progress_bars()
    texts, found = read_verses(), defaultdict(list)
    for seed in range(options.seeds):
        training, classes, share, test, relevant = split(texts, options.verses, seed)
        untrained = retrieval(new_encoder(training, seed), test, relevant)
        print(f"Seed {seed}: {len(training)} training verses, {len(test)} held out; {share:.4%} of the pairs say the same thing")
        print("  untrained: R@1 {:.2f}, MRR {:.2f}".format(*untrained), flush=True)
        for name, estimator_of in ESTIMATORS.items():
            model = train(estimator_of(share), training, classes, seed, options.epochs)
            found[name].append(retrieval(model, test, relevant))
            print("  {}: R@1 {:.2f}, MRR {:.2f}".format(name, *found[name][-1]), flush=True)
    print("\n| method | R@1 | difference from CL | MRR | difference from CL |\n|---|--:|--:|--:|--:|")
    for name, values in found.items():
        print("|", " | ".join([name, *map(compared, np.transpose(values), np.transpose(found["CL"]))]), "|")


if __name__ == "__main__":
    main()
