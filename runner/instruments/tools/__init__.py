"""What several instruments use: load generators, counters, clients, and how a search is conducted."""
