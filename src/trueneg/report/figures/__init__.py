"""Figures: one module per figure or family of figures, discovered automatically.

Each module has ``ORDER``, its position on the page, ``KIND``, the class of the studies with such
figures, and ``drawings``, which takes a study and returns one
:class:`trueneg.report.declared.Drawing` per figure of the study.
"""
