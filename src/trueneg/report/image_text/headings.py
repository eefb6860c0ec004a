"""What the figures and tables of an image–text study are called, and what to see in each."""

# Title of each figure and table, and a sentence on what to see in it.
TITLES = {
    "tradeoff": (
        "Three tasks against a constant η",
        "The first paper's Fig. 3: does one η suit all tasks, and does a class probability of each sentence beat every constant?",
    ),
    "similarity_histograms": (
        "Similarities of pairs, by how they are related",
        "ReCo's Fig. 4: an objective that tells false negatives apart keeps what is true of an image away from what is not.",
    ),
    "grounding_overlays": (
        "Where the models look",
        "The same phrases under every objective; the boxes are where the finding is.",
    ),
    "eta_by_class": (
        "The language model's class probability beside the known one",
        "The nearer to a rising line, the better a likelihood tells how common a class is.",
    ),
    "human_ratings": (
        "Which negatives people call false, and who ranks them so",
        "Flickr8k's experts rated captions of other images: does a method's weight of a pair follow what they say?",
    ),
    "eta_by_anchor": (
        "The class probability beside the rate of false negatives",
        "η belongs to a caption, not to a pair: does it rise with the share of its rated images that it describes?",
    ),
    "ablation_batch_size": (
        "The primary measurement against the batch size",
        "ReCo's Fig. 5 (a): more negatives at once, and more false ones among them.",
    ),
    "ablation_dimensions": ("The primary measurement against the embedding's size", "ReCo's Fig. 5 (b)."),
    "ablation_strength": (
        "The primary measurement against ReCo's weight of the negatives",
        "ReCo's Fig. 5 (c): over which range of λ does it beat the baseline?",
    ),
    "training_loss": ("Loss while training", "Losses of different objectives are not comparable; their shapes are."),
    "share_at_bound": (
        "Share of anchors at the bound",
        "An anchor at the bound gets no gradient from its negatives: the objective has switched it off.",
    ),
    "positive_similarity": (
        "Similarity of the training pairs",
        "The nearer the positives, the more a debiased loss subtracts, and the more anchors reach the bound.",
    ),
    "tasks": (
        "Every task, with paired differences",
        "The first paper's Table 1, and beside it the share of anchors that each objective has switched off.",
    ),
    "contrasts": (
        "What the study asks besides, task by task",
        "Whether it is the estimate that helps: against its own permutation, and against constants.",
    ),
    "zero_shot": ("Zero-shot classification by class", "The first paper's Table 3: AUC by difference of two prompts."),
    "retrieval": (
        "Retrieval, both directions",
        "The first paper's Table 5 and ReCo's Table 3; of median ranks the smaller is the better.",
    ),
    "precision": ("Precision of retrieval by label", "ReCo's Table 1."),
    "grounding": (
        "Grounding by finding",
        "The first paper's Table 4: contrast-to-noise ratio and mean IoU of a phrase's heatmap.",
    ),
    "linear_evaluation": ("Classifiers by share of the labels", "ReCo's Table 2, the mean of the classes and each class."),
    "published": (
        "Beside the printed tables",
        "Our numbers and the papers': where data, network or length differ, they need not agree.",
    ),
    "differences": (
        "Every paired difference, with its tests",
        "The primary contrast was named beforehand; all else is exploratory.",
    ),
}


def heading(name: str) -> tuple[str, str]:
    """Title of a figure or table, and a sentence on what to see in it.

    Args:
        name: of a figure or table; that of a paired twin ends in ``_differences``.

    Raises:
        KeyError: if there is none of that name.
    """
    if name in TITLES:
        return TITLES[name]
    title, sentence = TITLES[name.removesuffix("_differences")]
    return f"{title}: paired differences", sentence
