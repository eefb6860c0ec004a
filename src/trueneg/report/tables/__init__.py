"""Tables: one module per table or family of tables, found by being here, which declare them as figures are declared.

:mod:`trueneg.report.tables.building` is the one builder of tables that compare objectives.
"""
