"""Tables: one module per table or family of tables, discovered automatically; they are declared in
the same way as figures.

:mod:`trueneg.report.tables.building` builds all tables that compare objectives.
"""
