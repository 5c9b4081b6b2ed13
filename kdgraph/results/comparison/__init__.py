"""Comparison of methods: runs → a study → tests of one measure → tables."""
