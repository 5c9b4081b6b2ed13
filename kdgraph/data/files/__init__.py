"""Files that a user names: found, decoded and read, or refused in one line; what is in them becomes
rows elsewhere.
"""
