"""Time pseudo-log-likelihoods against minicons 0.3.39: sentences of Open-I, BERT with 4 layers,
width 256 and 30,000 words.

    pip install torchxrayvision; pip install --no-deps minicons==0.3.39 wonderwords   (in a separate
    environment) python benchmarks/pseudo_likelihood.py --threads 2 --table
    benchmarks/pseudo_likelihood.md

Both score the same unique sentences in turn; the table gives medians over turns. Of the corpus with
its repetitions, ours scores all sentences, minicons a random sample. Weights are random, which does
not affect speed. minicons uses its fastest batch size.
"""

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast
from transformers import logging as transformers_logging

from trueneg.data.reports import open_i
from trueneg.text import pseudo_log_likelihood, split_sentences
from trueneg.text.scorers import PlainBert
from trueneg.text.tokenizing import train_tokenizer

# minicons calls this method, which did the same as calling the tokenizer; transformers 5 removed
# it.
PreTrainedTokenizerFast.batch_encode_plus = PreTrainedTokenizerFast.__call__
from minicons import scorer as minicons_scorer  # noqa: E402

LAYERS, WIDTH, WORDS, HEADS = 4, 256, 30_000, 4
PRODUCT_SECONDS = 2.0  # of each measurement of the speed of a matrix product
MEMORY_COUNTS = (500, 5_000)  # sentences whose scoring shows the peak memory
GENERATOR = np.random.default_rng(0)


def corpus(archive):
    """Return every sentence of every report, with repetitions."""
    texts = (
        " ".join(open_i.section_text(root).values())
        for _, root in open_i.read_archive(open_i.find_archive(archive))
    )
    return [sentence for text in texts for sentence in split_sentences(text)]


def sample(sentences, count):
    return [
        sentences[place]
        for place in GENERATOR.choice(len(sentences), min(count, len(sentences)), replace=False)
    ]


def token_counts(tokenizer, sentences):
    return np.array(
        [len(ids) for ids in tokenizer(sentences, add_special_tokens=False)["input_ids"]]
    )


def floating_point_operations(lengths):
    """Count the operations that plain BERT's fast path needs: matrix products of its layers and
    head, given sentence lengths.
    """
    t, h, s = lengths + 2, WIDTH, lengths  # positions, width, masked copies
    attention = 4 * t * h
    # output and feed-forward of every position; projections: once per sentence
    first = t * (2 * h * h + 16 * h * h + attention)
    middle = (LAYERS - 2) * t * (24 * h * h + attention)
    # keys and values of every position; the rest only at the target
    last = t * 4 * h * h + 20 * h * h + attention
    head = 2 * h * h + 2 * h * WORDS
    return float((s * (first + middle + last + head) + 2 * t * 6 * h * h).sum())


def product_rate():
    """Return the mean FLOP/s of a large matrix product, which other work on the machine slows as
    well.
    """
    a, done, begun = torch.randn(2048, 2048), 0, time.perf_counter()
    a @ a
    while time.perf_counter() - begun < PRODUCT_SECONDS:
        a @ a
        done += 1
    return 2 * 2048**3 * done / (time.perf_counter() - begun)


def rate(score, sentences, tokens):
    begun = time.perf_counter()
    score(sentences)
    return tokens / (time.perf_counter() - begun)


def peak_memory(count, arguments):
    """Return the peak memory, in MiB, of a process that scores this many distinct sentences
    (Linux).
    """
    command = [
        sys.executable,
        __file__,
        "--memory",
        str(count),
        "--threads",
        str(arguments.threads),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    return float(done.stdout.split()[-1])


def score_for_memory(count):
    words = [f"word{number}" for number in range(200)]
    sentences = [" ".join(GENERATOR.choice(words, 8)) + f" {number}." for number in range(count)]
    model, tokenizer = small_bert(sentences[:200])
    pseudo_log_likelihood(model, tokenizer, sentences)
    print(int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024)


def small_bert(sentences):
    tokenizer = train_tokenizer(sentences, WORDS, 512)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
    )
    return BertForMaskedLM(config).eval(), tokenizer


def compare(arguments):
    sentences = corpus(arguments.archive)
    unique = list(dict.fromkeys(sentences))
    model, tokenizer = small_bert(unique)
    peer = minicons_scorer.MaskedLMScorer(model, "cpu", tokenizer=tokenizer)

    def ours(texts):
        return pseudo_log_likelihood(model, tokenizer, texts)

    def any_model(texts):
        takes, PlainBert.takes = PlainBert.takes, staticmethod(lambda model: False)
        try:
            return ours(texts)
        finally:
            PlainBert.takes = takes

    def theirs(texts, size):
        scores = []
        for start in range(0, len(texts), size):
            part = texts[start : start + size]
            scores += peer.sequence_score(
                part, reduction=lambda tokens: tokens.sum().item(), PLL_metric="original"
            )
        return np.array(scores)

    few = sample(unique, 200)
    difference = float(np.abs(ours(few) - theirs(few, 1)).max())
    few_tokens = token_counts(tokenizer, few[:60]).sum()
    sizes = {
        size: rate(lambda texts, size=size: theirs(texts, size), few[:60], few_tokens)
        for size in (1, 4, 16)
    }
    size = max(sizes, key=sizes.get)
    rates = {"ours": [], "any model": [], "minicons": [], "product": [], "floor": []}
    for _ in range(arguments.turns):
        chosen = sample(unique, 400)
        counts = token_counts(tokenizer, chosen)
        rates["minicons"].append(
            rate(lambda texts: theirs(texts, size), chosen[:80], counts[:80].sum())
        )
        before = product_rate()
        rates["ours"].append(rate(ours, chosen, counts.sum()))
        rates["product"].append((before + product_rate()) / 2)
        rates["any model"].append(rate(any_model, chosen, counts.sum()))
        rates["floor"].append(
            counts.sum() * rates["product"][-1] / floating_point_operations(counts)
        )
    counts = token_counts(tokenizer, sentences)
    whole = rate(ours, sentences, counts.sum())
    part = GENERATOR.choice(len(sentences), min(300, len(sentences)), replace=False)
    repeated = rate(
        lambda texts: theirs(texts, size), [sentences[place] for place in part], counts[part].sum()
    )
    median = {name: statistics.median(values) for name, values in rates.items()}

    def ratio(name, to):
        return statistics.median(
            one / other for one, other in zip(rates[name], rates[to], strict=True)
        )

    memory = [peak_memory(count, arguments) for count in MEMORY_COUNTS]
    lines = [
        "| | tokens/s | to minicons | share of the floor |",
        "|---|---|---|---|",
        f"| minicons, unique sentences | {median['minicons']:,.0f} | 1.0× | |",
        f"| any model | {median['any model']:,.0f} | {ratio('any model', 'minicons'):.1f}× | |",
        (
            f"| plain BERT | {median['ours']:,.0f} | {ratio('ours', 'minicons'):.1f}× |"
            f" {100 * ratio('ours', 'floor'):.0f} % |"
        ),
        f"| minicons, corpus with repetitions | {repeated:,.0f} | 1.0× | |",
        f"| plain BERT, corpus with repetitions | {whole:,.0f} | {whole / repeated:.1f}× | |",
        "",
        (
            f"* {len(sentences):,} sentences, {len(unique):,} unique; {counts.sum():,} tokens,"
            f" {token_counts(tokenizer, unique).sum():,} of unique sentences; largest difference to"
            f" minicons {difference:.1e} nats."
        ),
        (
            "* minicons by batch size:"
            f" {', '.join(f'{size}: {found:,.0f} tokens/s' for size, found in sizes.items())}."
        ),
        (
            f"* Floor: the matrix products alone, at the {median['product'] / 1e9:.0f} GFLOP/s of a"
            " 2048 × 2048 product before and after, in the same turn."
        ),
        (
            f"* Peak memory of the process: {memory[0]:,.0f} MiB for {MEMORY_COUNTS[0]:,} different"
            f" sentences, {memory[1]:,.0f} MiB for {MEMORY_COUNTS[1]:,}."
        ),
        (
            f"* Medians of {arguments.turns} turns, ratios within a turn; load average at the end"
            f" {os.getloadavg()[0]:.1f}."
        ),
        (
            f"* Python {platform.python_version()}, torch {torch.__version__}, transformers"
            f" {version('transformers')}, minicons {version('minicons')}; {platform.machine()} CPU,"
            f" {torch.get_num_threads()} thread(s)."
        ),
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--archive",
        help="the Open-I archive, or a folder that holds it; by default inside torchxrayvision",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--table", type=Path, help="Markdown file whose measured part to replace")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    transformers_logging.set_verbosity_error()
    torch.set_num_threads(arguments.threads)
    if arguments.memory:
        score_for_memory(arguments.memory)
        return
    table = compare(arguments)
    print(table)
    if arguments.table:
        before, after = arguments.table.read_text().split("<!-- measured -->")[::2]
        arguments.table.write_text(f"{before}<!-- measured -->\n{table}\n<!-- measured -->{after}")


if __name__ == "__main__":
    main()
