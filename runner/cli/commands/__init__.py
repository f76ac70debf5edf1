"""A file or a folder a command, with its options; ``work.py`` of a folder does what the command is for.

Every command checks what it was given before it starts anything, and imports what it works with where it begins its
work: ``--help`` and a wrong option are answered at once.
"""
