"""Figures: one module per figure or family of figures, found by being here.

A module has ``ORDER``, its place on the page, and ``drawings(study)``, which returns a :class:`trueneg.report.declared.Drawing`
for each figure that a study gets.
"""
