"""Methods against each other: runs → a study → tests of one measure → tables with words, or one
long table for programs.
"""
