"""Files that a user names: paths, decoding, and readers of tables and arrays.

Each reader returns the contents of a file or raises an error of one line. Other packages turn
these contents into data sets.
"""
