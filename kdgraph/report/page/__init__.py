"""The report: one HTML page of many runs, by method, by data set and run by run."""
