"""What comes after runs: finding their records, the table of all their numbers, and comparisons of methods over seeds and data sets."""
