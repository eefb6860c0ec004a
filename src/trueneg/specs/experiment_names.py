"""How the compared estimators are called, in frames and in figures; what draws them needs no torch."""

BIASED, DCL, TRUE = "CL (biased)", "DCL", "true negatives"
FORM_NAMES = {"paper": "BCL, paper", "released": "BCL, released", "consistent": "BCL, consistent"}
ESTIMATORS = (BIASED, DCL, *FORM_NAMES.values())
DRAWN, EXACT = REFERENCES = ("drawn true negatives", "exact mean")  # what an estimate is compared with
