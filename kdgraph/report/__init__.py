"""What people read: the table of one run, the table of a sweep, and the terminal."""
