"""The report: one HTML page of many runs, by method, by data set, run by run, with what each of
them was and how to do it again.
"""
