"""New rows through the model of a finished run: what they must be, how they are read, and what is
written.
"""
