"""Is the stated confidence right here? From the kernel to the errors around every row, and from these to numbers and tables."""
