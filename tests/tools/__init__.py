"""Tools of the tests and of lint: the second chance, mutants, the picture of the rooms, an installed wheel."""
