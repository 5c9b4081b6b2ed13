"""Out-of-distribution scores: how far rows, or sets of rows, are from what a parent was trained on."""
